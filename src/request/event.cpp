#include "request/event.h"

namespace reprise {

const char* to_string(MissReason reason) {
  switch (reason) {
    case MissReason::none:
      return nullptr;
    case MissReason::diverged:
      return "diverged";
    case MissReason::no_snapshot:
      return "no_snapshot";
    case MissReason::evicted:
      return "evicted";
    case MissReason::store_failed:
      return "store_failed";
    case MissReason::corrupt:
      return "corrupt";
    case MissReason::name_space:
      return "namespace";
    case MissReason::disabled:
      return "disabled";
    case MissReason::cheaper_to_compute:
      return "cheaper_to_compute";
  }
  return nullptr;
}

}  // namespace reprise
