#include "base/process_memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace reprise {
namespace {

// The value of "NAME:   123 kB" in a file under /proc, in bytes.
std::size_t kilobytes_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    std::size_t value = 0;
    rest >> value;
    return value * 1024;
  }
  return 0;
}

}  // namespace

std::size_t resident_bytes() {
  return kilobytes_of("/proc/self/status", "VmRSS");
}

std::size_t peak_resident_bytes() {
  return kilobytes_of("/proc/self/status", "VmHWM");
}

std::size_t available_bytes() {
  return kilobytes_of("/proc/meminfo", "MemAvailable");
}

}  // namespace reprise
