// What the server needs of the engine, as three functions: tests put their own
// in its place. All are called from any thread and must not wait for a step.
#pragma once

#include <functional>

#include "base/result.h"
#include "engine/engine.h"
#include "request/request.h"

namespace reprise {

struct GenerationBackend {
  std::function<Result<RequestId>(Request, EventSink)> submit;
  std::function<void(RequestId)> cancel;
  std::function<EngineStatus()> status;
};

// The engine outlives the backend. Inline, so that only a program that has an
// engine links it.
inline GenerationBackend backend_of(Engine& engine) {
  return {.submit =
              [&engine](Request request, EventSink sink) {
                return engine.submit(std::move(request), std::move(sink));
              },
          .cancel = [&engine](RequestId id) { engine.cancel(id); },
          .status = [&engine] { return engine.status(); }};
}

}  // namespace reprise
