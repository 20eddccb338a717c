// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string_view>

namespace c10dd::torture {
namespace {

constexpr std::string_view kNames[] = {
    "set",       "get",       "exists",   "add",     "append", "compare_set", "remove",
    "multi_set", "multi_get", "transfer", "balance", "push",   "pop",         "meet"};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  for (std::size_t tab = 0; tab != std::string::npos; at = tab + 1) {
    tab = line.find('\t', at);
    words.push_back(line.substr(at, tab == std::string::npos ? tab : tab - at));
  }
  return words;
}

/// Texts of errors may have anything in them.
std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

template <class... Words>
std::string line_of(const Words&... words) {
  std::string line;
  const auto add = [&](const auto& word) {
    if (!line.empty()) line += '\t';
    if constexpr (std::is_integral_v<std::decay_t<decltype(word)>>) {
      line += std::to_string(word);
    } else {
      line += word;
    }
  };
  (add(words), ...);
  return line + '\n';
}

class Reader {
 public:
  explicit Reader(unsigned worker) : worker_(worker) {}

  void take(const std::vector<std::string>& words) {
    const std::string& mark = words.at(0);
    if (mark == "?") return invoked(words);
    if (mark == "=") return answered(words);
    if (mark == "w") {
      history_.seen.push_back({worker_, std::stoull(words.at(1)), words.at(2), words.at(3)});
    } else if (mark == "x") {
      history_.flaws.push_back(words.at(1));
    } else if (mark == "t") {
      history_.reissued = std::stoull(words.at(1));
      history_.sessions_lost = std::stoull(words.at(2));
    } else {
      throw std::runtime_error("unknown mark " + mark);
    }
  }

  History finish() { return std::move(history_); }

 private:
  void invoked(const std::vector<std::string>& words) {
    Call call;
    call.worker = worker_;
    call.id = std::stoull(words.at(1));
    call.what = static_cast<What>(std::stoul(words.at(2)));
    call.key = words.at(3);
    call.input = words.at(4);
    call.expected = words.at(5);
    call.delta = std::stoll(words.at(6));
    call.invoked = std::stoull(words.at(7));
    by_id_[call.id] = history_.calls.size();
    history_.calls.push_back(std::move(call));
  }

  void answered(const std::vector<std::string>& words) {
    Call& call = history_.calls.at(by_id_.at(std::stoull(words.at(1))));
    call.answered = std::stoull(words.at(2));
    call.error = words.at(3);
    call.value = words.at(4);
    call.revision = std::stoull(words.at(5));
    call.number = std::stoll(words.at(6));
    call.yes = words.at(7) == "1";
  }

  unsigned worker_;
  History history_;
  std::map<std::uint64_t, std::size_t> by_id_;
};

}  // namespace

std::uint64_t now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

Recorder::Recorder(const std::string& path, unsigned worker)
    : worker_(worker),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::runtime_error("cannot write " + path);
}

Recorder::~Recorder() { ::close(file_); }

void Recorder::invoke(Call& call) {
  call.worker = worker_;
  call.id = next_id_++;
  call.invoked = now();
  write(line_of("?", call.id, static_cast<unsigned>(call.what), call.key, call.input, call.expected,
                call.delta, call.invoked));
}

void Recorder::answer(Call& call) {
  call.answered = now();
  write(line_of("=", call.id, call.answered, plain(call.error), call.value, call.revision,
                call.number, static_cast<int>(call.yes)));
}

void Recorder::saw(const Seen& seen) { write(line_of("w", seen.revision, seen.key, seen.value)); }

void Recorder::flaw(const std::string& text) { write(line_of("x", plain(text))); }

void Recorder::totals(std::uint64_t reissued, std::uint64_t sessions_lost) {
  write(line_of("t", reissued, sessions_lost));
}

void Recorder::write(std::string line) {
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write the history");
  }
}

History read_history(const std::string& path, unsigned worker) {
  std::ifstream file(path);
  Reader reader(worker);
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) break;  // a line without an end
    try {
      reader.take(split(line));
    } catch (const std::exception& e) {
      throw std::runtime_error(path + ": " + e.what() + " in: " + line);
    }
  }
  return reader.finish();
}

std::string describe(const Call& call) {
  const auto part = [](const char* name, const std::string& text) {
    return text.empty() ? "" : std::string(" ") + name + "=" + text.substr(0, 200);
  };
  std::string line = std::to_string(call.invoked) + ".." +
                     (call.answered == 0 ? "never" : std::to_string(call.answered)) + " worker " +
                     std::to_string(call.worker) + " " +
                     std::string(kNames[static_cast<std::size_t>(call.what)]) + " " + call.key +
                     part("input", call.input) + part("expected", call.expected);
  if (call.delta != 0) line += " delta=" + std::to_string(call.delta);
  line += " ->" + part("error", call.error);
  if (!call.good()) return line;
  line += part("value", call.value) + (call.yes ? " yes" : " no");
  if (call.revision != 0) line += " revision=" + std::to_string(call.revision);
  return line + " number=" + std::to_string(call.number);
}

}  // namespace c10dd::torture
