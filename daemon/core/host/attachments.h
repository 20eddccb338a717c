// SPDX-License-Identifier: Apache-2.0
// Attaches sessions to the jobs of a host, and detaches them. A session has one attachment at most:
// a newer hello ends the older one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/host/commits.h"
#include "daemon/core/host/host_context.h"
#include "daemon/core/host/job_loader.h"
#include "daemon/core/host/job_table.h"
#include "daemon/core/host/reply_sender.h"

namespace c10dd::core {

/// A hello that is on its way to its job.
struct HelloRequest {
  std::shared_ptr<ReplySink> sink;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::uint64_t connection = 0;  ///< Origin::connection
  Hello hello;
  /// Called on the connection's loop, before the reply; not called if the hello is refused.
  std::function<void(const JobRef&, const AttachmentRef&)> on_open;
  std::string client = {};  ///< address of the client; empty: this daemon
  Caller caller = {};
  /// If the job is still loading after a while, the client is told so, and says hello again. If
  /// false, the hello waits until the load has ended.
  bool asks_again = false;

  /// Returns the name of who sends it: a principal, or without authentication an address.
  const std::string& sender() const { return caller.principal.empty() ? client : caller.principal; }
};

class Attachments {
 public:
  Attachments(const HostContext& context, JobTable& table, JobLoader& loader, Commits& commits,
              ReplySender& replies)
      : context_(context), table_(table), loader_(loader), commits_(commits), replies_(replies) {}

  /// Handles a hello that needs no lookup, because this host serves its job or the daemon drains.
  /// Returns false if the directory must say first which host serves the job.
  bool hello(const HelloRequest& request);
  /// Handles the hello of a client that only reads, in a job that this host serves: the client does
  /// not begin to use the job. Returns false if the host does not serve it.
  bool look(JobNumber number, const HelloRequest& request);
  /// Refuses a hello because the directory has not found the job.
  void not_found(const HelloRequest& request, Failure reason);
  /// Handles a hello for a job of this host. If the job is still loading, the hello waits; see
  /// HelloRequest::asks_again.
  void arrive(const JobLocation& location, HelloRequest request);
  /// As JobHost::detach(), for jobs of this host.
  void detach(const JobRef& slot, const AttachmentRef& attachment);
  /// Ends all attachments of a job that the host has dropped, and refuses the hellos whose refusals
  /// its gate has held.
  void end_all(JobSlot& slot, const Failure& reason);

 private:
  void attach(const JobRef& slot, const HelloRequest& request);
  void take_over(const JobRef& slot, const HelloRequest& request);
  void refuse(const HelloRequest& request, Failure reason);

  const HostContext& context_;
  JobTable& table_;
  JobLoader& loader_;
  Commits& commits_;
  ReplySender& replies_;
};

}  // namespace c10dd::core
