// The threads that all CPU kernels share. One parallel loop at a time, called
// from MLX's CPU stream thread (which takes part); between loops the workers
// spin for a few tens of microseconds, then sleep. Loops of several callers
// run one after the other.
#pragma once

#include <functional>

namespace reprise::kernels::cpu {

// Threads that a loop uses, the caller included. Default: the processor cores
// this process may run on. Set between loops; >= 1.
int thread_count();
void set_thread_count(int count);

// Calls body(i) once for every i in [0, count), on several threads in no
// particular order, and returns when all are done. An exception thrown by a
// body is rethrown here (the first of them) after all have ended. A body must
// not call it.
void parallel_for(int count, const std::function<void(int)>& body);

}  // namespace reprise::kernels::cpu
