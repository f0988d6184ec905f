#pragma once

#include <cstdint>

#include "benchmarks/object_store/store_content.h"

namespace millrace {

/// What a server keeps to.
struct StoreRules {
  int64_t latency_ms = 0;     ///< from a request to the first byte of its answer
  double connection_mb = 60;  ///< MB/s of one connection; 0: any
  double all_mb = 400;        ///< MB/s of all of them; 0: any
  double stalled = 0;         ///< share of the requests for bytes whose answers come 5 s later
  double failing = 0;         ///< share of the requests for bytes that are answered by 503, no answer, or half a body
};

/// Serves the objects in the bucket `bench` of an S3 of its own (path style) on 127.0.0.1, one thread: GET and HEAD
/// with ranges, kept connections, listings by pages; what is written is taken at the rates and counted, and is not
/// there; signatures and conditions are not looked at. Prints its URL, serves until standard input ends, and prints
/// what it has done: `requests N`, `bytes N` of bodies, `bytes_taken N` of those of PUT, `sum_taken N` of them,
/// `cpu_seconds X`. `port` 0: a free one.
void serve_store(const StoreContent& content, const StoreRules& rules, uint16_t port);

}  // namespace millrace
