"""The length counter itself: what it sees in code of every shape."""

from repo.functions import cpp_functions, python_functions

SOURCE = '''\
#define OPEN {
namespace reprise {
struct Options {
  int a = 0;
  int twice() const { return 2 * a; }
};
Thing::Thing(int a)
    : a_{a}, b_(f(a)), c_{"}"} {
  go();
}
template <typename T>
std::vector<T> many(T x) {
  auto inner = [&](int i) {
    return '{' + i;  // {
  };
  if (x) { inner(1); }
  return {x};
}
const std::vector<int> kTable = {
    1,
};
TEST(Group, Name) {
  EXPECT_EQ(1, R"(})" ? 1 : 2);
}
}  // namespace reprise
int main() { return 0; }
'''


def test_cpp_heads_and_lengths():
    found = {head.split("(")[0].split()[-1]: n for head, n in cpp_functions(SOURCE)}
    assert found == {"twice": 1, "Thing::Thing": 4, "many": 8, "TEST": 3,
                     "main": 1}


def test_python_lengths():
    assert python_functions("def f():\n    x = 1\n    return x\n") == [("f", 3)]
