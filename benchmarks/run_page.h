#pragma once

#include <string>

#include "benchmarks/bench_result.h"

namespace millrace {

/// A page about a run: the graph of its stages with how busy they were, rates, fill of the queues, memory over time,
/// and the percentiles of `next()`. One HTML file that needs no other (benchmarks/page/run_page.html with the result of
/// `--json` in it).
[[nodiscard]] std::string to_html(const BenchResult& result);

}  // namespace millrace
