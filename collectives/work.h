// SPDX-License-Identifier: Apache-2.0
// Work: one collective under way. It holds its tensors until the backend has let go of them, which
// may be later than an impatient wait(). Safe from any thread; outlives its group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10dd/codes.h>
#include <c10dd/errors.h>
#include <c10dd/types.h>

namespace c10dd {

class Work {
 public:
  enum class Status : std::uint8_t {
    pending,    ///< queued or running
    done,       ///< the result is in the output tensor
    failed,     ///< the output tensor's contents are undefined
    abandoned,  ///< never handed to the backend, its group had failed before; tensors untouched
  };

  virtual ~Work() = default;

  virtual Status status() const = 0;

  /// Blocks until the collective has ended (each is bounded by its own time-out). Throws what made
  /// it fail: TimedOut, Aborted, Unavailable (a peer was lost), ...
  virtual void wait() = 0;

  /// As wait(), but throws TimedOut if it has not ended by then; the collective goes on.
  virtual void wait(Duration timeout) = 0;

  virtual Code code() const = 0;          ///< ok while pending and when done
  virtual std::string error() const = 0;  ///< one sentence; empty while pending and when done

  /// Time inside the backend; zero until the collective has ended and for abandoned work.
  virtual Duration duration() const = 0;

  /// Position among the collectives of its group, from 0; equal on all ranks.
  virtual std::uint64_t sequence() const = 0;
};

using WorkPtr = std::shared_ptr<Work>;

}  // namespace c10dd
