// SPDX-License-Identifier: Apache-2.0
// Lines of words; requests and answers are frames of the protocol, in base64.
#include "tests/torture/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "protocol/base64.h"
#include "protocol/native_wire.h"

namespace c10dd::torture {
namespace {

constexpr std::size_t kFrameMost = std::size_t{1} << 30;

std::string text_of(const Request& request) {
  Bytes frame;
  native::encode_request(frame, {}, request);
  return base64_encode(frame);
}

std::string text_of(const Op& op) {
  native::ReplyHeader header;
  header.op = info_of(op.request).code;
  const native::EncodedReply reply = native::encode_reply(header, *op.reply);
  return base64_encode(reply.head + Bytes(reply.tail.view()));
}

template <class T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().detail);
  return std::move(*result);
}

Bytes frame_of(const std::string& text) {
  const auto bytes = base64_decode(text);
  if (!bytes) throw std::runtime_error("bad base64");
  return *bytes;
}

Request request_of(const std::string& text) {
  const Bytes bytes = frame_of(text);
  const auto frame = taken(native::cut_request(bytes, kFrameMost));
  if (!frame) throw std::runtime_error("half a request");
  return taken(native::decode_request(frame->header.op, frame->body));
}

Reply reply_of(const std::string& text) {
  const Bytes bytes = frame_of(text);
  const auto frame = taken(native::cut_reply(bytes, kFrameMost));
  if (!frame) throw std::runtime_error("half an answer");
  Reply reply = ReplyBody(Done{});
  const auto decoded =
      native::decode_reply(frame->header.op, frame->header.kind, frame->body, reply);
  if (!decoded) throw std::runtime_error(decoded.error().detail);
  return reply;
}

class Reader {
 public:
  explicit Reader(std::uint32_t client) : client_(client) {}

  void take(const std::string& line) {
    std::istringstream words(line);
    words.exceptions(std::ios::failbit);
    std::string mark;
    std::string text;
    words >> mark;
    if (mark == "?") {
      std::uint64_t id = 0;
      Op op;
      op.client = client_;
      words >> id >> op.invoked >> text;
      op.request = request_of(text);
      by_id_[id] = history_.ops.size();
      history_.ops.push_back(std::move(op));
    } else if (mark == "=") {
      std::uint64_t id = 0;
      words >> id;
      Op& op = history_.ops.at(by_id_.at(id));
      words >> op.answered >> text;
      op.reply = reply_of(text);
    } else if (mark == "x") {
      std::getline(words >> std::ws, text);
      history_.flaws.push_back(text);
    } else if (mark == "t") {
      words >> history_.reissued >> history_.sessions_lost;
    } else {
      throw std::runtime_error("unknown mark " + mark);
    }
  }

  History finish() { return std::move(history_); }

 private:
  std::uint32_t client_;
  History history_;
  std::map<std::uint64_t, std::size_t> by_id_;
};

}  // namespace

std::uint64_t now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

Op begin_call(std::uint32_t client, Request request) {
  Op op;
  op.client = client;
  op.request = std::move(request);
  op.invoked = now();
  return op;
}

bool found_nothing(const Op& op) {
  const auto* pop = std::get_if<QueuePop>(&op.request);
  if (op.code() == Code::not_found)
    return pop != nullptr || std::holds_alternative<Get>(op.request);
  if (op.code() != Code::timed_out) return false;
  return std::holds_alternative<Watch>(op.request) || (pop != nullptr && pop->timeout < kPatience);
}

Recorder::Recorder(const std::string& path, std::uint32_t client)
    : client_(client),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::runtime_error("cannot write " + path);
}

Recorder::~Recorder() { ::close(file_); }

std::uint64_t Recorder::invoke(const Op& op) {
  const std::uint64_t id = next_id_++;
  write("? " + std::to_string(id) + " " + std::to_string(op.invoked) + " " + text_of(op.request));
  return id;
}

void Recorder::reply(std::uint64_t id, const Op& op) {
  write("= " + std::to_string(id) + " " + std::to_string(op.answered) + " " + text_of(op));
}

void Recorder::flaw(const std::string& text) {
  std::string line = "x " + text;
  std::ranges::replace(line, '\n', ' ');
  write(std::move(line));
}

void Recorder::totals(std::uint64_t reissued, std::uint64_t sessions_lost) {
  write("t " + std::to_string(reissued) + " " + std::to_string(sessions_lost));
}

void Recorder::write(std::string line) {
  line += '\n';
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write the history");
  }
}

History read_history(const std::string& path, std::uint32_t client) {
  std::ifstream file(path);
  Reader reader(client);
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) break;  // a line without an end
    try {
      reader.take(line);
    } catch (const std::exception& e) {
      throw std::runtime_error(path + ": " + e.what() + " in: " + line);
    }
  }
  return reader.finish();
}

}  // namespace c10dd::torture
