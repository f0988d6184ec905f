#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "benchmarks/bench_options.h"

namespace millrace {

/// Parses `KEY=A,B,C`. Throws `kInvalidArgument`: an unknown key, with those there are; the beginning of
/// several; one that the workload of
/// `options` does not have; values that are no whole numbers or too small.
[[nodiscard]] SweptOption parse_swept_option(std::string_view text, const BenchOptions& options);

/// Gives the option `key` of a sweep this value.
void set_swept_option(BenchOptions& options, std::string_view key, int64_t value);

/// Whether the stream depends on the option. Those on which it does not must give one stream with all their values.
[[nodiscard]] bool changes_stream(std::string_view key);

}  // namespace millrace
