// What the operating system says about memory, in bytes. 0 where it does not
// say. Any thread.
#pragma once

#include <cstddef>

namespace reprise {

std::size_t resident_bytes();       // of this process, now
std::size_t peak_resident_bytes();  // of this process, since it started
std::size_t available_bytes();      // of the machine, without swapping

}  // namespace reprise
