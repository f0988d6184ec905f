#include "benchmarks/swept_option.h"

#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/workloads.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

/// An option that can be swept.
struct Key {
  std::string_view name;
  int64_t least;
  int64_t most;
  bool changes_stream;
  bool (*is_of)(const Workload::Defaults& workload);  // whether the workload has it; null: all have
  void (*set)(BenchOptions& options, int64_t value);
};

constexpr std::array kKeys = {
    Key{"threads", 1, limits::kThreads, false, nullptr,
        [](BenchOptions& o, int64_t v) { o.threads = static_cast<int>(v); }},
    Key{"batch", 1, limits::kRows, true, [](const Workload::Defaults& w) { return w.batch.has_value(); },
        [](BenchOptions& o, int64_t v) { o.batch = v; }},
    Key{"shuffle", 1, limits::kRows, true, [](const Workload::Defaults& w) { return w.shuffle.has_value(); },
        [](BenchOptions& o, int64_t v) {
          o.shuffle = v;
          o.shuffle_was_given = true;
        }},
    Key{"cycle-length", 1, limits::kFew, true, [](const Workload::Defaults& w) { return w.cycle_length.has_value(); },
        [](BenchOptions& o, int64_t v) { o.cycle_length = v; }},
    Key{"block-length", 1, limits::kRows, true, [](const Workload::Defaults& w) { return w.takes_shards; },
        [](BenchOptions& o, int64_t v) { o.block_length = v; }},
    Key{"chunk-bytes", 16384, 1 << 30, false, [](const Workload::Defaults& w) { return w.takes_shards; },
        [](BenchOptions& o, int64_t v) { o.chunk_bytes = v; }},
    Key{"read-ahead", 0, 1024, false, [](const Workload::Defaults& w) { return w.takes_shards; },
        [](BenchOptions& o, int64_t v) { o.read_ahead = v; }},
    Key{"prefetch", 1, limits::kFew, false, [](const Workload::Defaults&) { return true; },
        [](BenchOptions& o, int64_t v) { o.prefetch = v; }},
    Key{"memory-mb", 1, limits::kMemoryMb, false, nullptr, [](BenchOptions& o, int64_t v) { o.memory_mb = v; }},
    Key{"consumer-us", 0, limits::kCount, false, nullptr, [](BenchOptions& o, int64_t v) { o.consumer_us = v; }},
    Key{"seed", 0, limits::kAny, true, [](const Workload::Defaults& w) { return w.takes_seed; },
        [](BenchOptions& o, int64_t v) { o.seed = static_cast<uint64_t>(v); }},
};

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

// By the name, or a beginning of one name only.
const Key& find_key(std::string_view name) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> beginnings;
  const Key* found = nullptr;
  for (const Key& key : kKeys) {
    if (key.name == name) return key;
    names.push_back(key.name);
    if (name.empty() || !key.name.starts_with(name)) continue;
    beginnings.push_back(key.name);
    found = &key;
  }
  if (beginnings.size() == 1) return *found;
  if (beginnings.empty()) {
    refuse(fmt::format("--sweep: no option '{}'; there are: {}", name, fmt::join(names, ", ")));
  }
  refuse(fmt::format("--sweep: '{}' may be any of {}", name, fmt::join(beginnings, ", ")));
}

}  // namespace

SweptOption parse_swept_option(std::string_view text, const BenchOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(fmt::format("--sweep is '{}', must be KEY=A,B,C", text));
  const Key& key = find_key(text.substr(0, equals));
  if (key.is_of != nullptr) {
    if (!options.pipeline.empty()) refuse(fmt::format("--sweep {}: the definition of --pipeline says it", key.name));
    if (!key.is_of(find_workload(options.workload).defaults)) {
      refuse(fmt::format("--sweep {} has no effect with the workload {}", key.name, options.workload));
    }
  }
  SweptOption swept{.key = std::string(key.name), .values = {}};
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const std::string_view word = rest.substr(0, rest.find(','));
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size()) {
      refuse(fmt::format("--sweep {}: '{}' is no whole number", key.name, word));
    }
    if (value < key.least || value > key.most) {
      refuse(fmt::format("--sweep {}: {}; {} to {} are possible", key.name, value, key.least, key.most));
    }
    swept.values.push_back(value);
    if (word.size() == rest.size()) return swept;
    rest.remove_prefix(word.size() + 1);
  }
}

void set_swept_option(BenchOptions& options, std::string_view key, int64_t value) { find_key(key).set(options, value); }

bool changes_stream(std::string_view key) { return find_key(key).changes_stream; }

}  // namespace millrace
