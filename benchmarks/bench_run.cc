#include "benchmarks/bench_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "benchmarks/bench_shards.h"
#include "benchmarks/hash_log.h"
#include "benchmarks/latency_histogram.h"
#include "benchmarks/live_display.h"
#include "benchmarks/process_usage.h"
#include "benchmarks/run_page.h"
#include "benchmarks/run_sampler.h"
#include "benchmarks/touch_rows.h"
#include "millrace/command_line/skipped_at_error.h"
#include "millrace/command_line/skipped_log.h"
#include "millrace/formats/storage/remote/disk_cache.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/stream_hash.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Shows how far the measurement is.
class Progress {
 public:
  Progress(const BenchOptions& options, RunSampler& sampler, const Pipeline& pipeline)
      : options_(options), sampler_(sampler), pipeline_(pipeline), display_(options.display) {}

  void update(int64_t batches, int64_t records, int64_t bytes, double elapsed) {
    sampler_.look(records, bytes);
    if (!display_.due()) return;
    sampler_.take(records, bytes);
    const std::string end = options_.batches ? fmt::format("{} of {} batches", batches, *options_.batches)
                                             : fmt::format("{:.1f} of {:.1f} s", elapsed, options_.seconds);
    const Statistics statistics = pipeline_.stats();
    const RunSample& now = sampler_.samples().back();
    display_.draw({.heading = fmt::format("{}: {}", options_.workload, end),
                   .before = before_.stages.empty() ? sampler_.samples().front() : before_,
                   .now = now,
                   .wall_seconds = statistics.wall_seconds,
                   .threads = statistics.threads});
    before_ = now;
  }

 private:
  const BenchOptions& options_;
  RunSampler& sampler_;
  const Pipeline& pipeline_;
  LiveDisplay display_;
  RunSample before_;  // of the last picture
};

void write_text(const std::string& path, const std::string& text) {
  std::error_code unknown;
  if (RemoteStorage::opens(path) || !std::filesystem::exists(path, unknown) ||
      std::filesystem::is_regular_file(path, unknown)) {
    return write_anywhere(path, text);
  }
  std::ofstream file(path, std::ios::binary);  // a device or a pipe, whose name stays its own
  file << text;
  file.close();
  if (!file) throw ErrorException({.code = ErrorCode::kIo, .message = "cannot write the file", .shard = path});
}

// Before the run: what it found must not be lost at its end.
void require_writable(const std::string& path) {
  if (RemoteStorage::opens(path)) return static_cast<void>(open_output_anywhere(path));  // as far as the URL says it
  std::error_code unknown;
  const bool is_there = std::filesystem::exists(path, unknown);
  if (!std::ofstream(path, std::ios::app)) {
    const std::string reason = std::strerror(errno);
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot write the file: " + reason, .shard = path});
  }
  if (!is_there) std::filesystem::remove(path, unknown);
}

std::string skipped_text(const SkipReport& skipped) { return skipped.counts.regions > 0 ? skipped.to_string() : ""; }

// Of the shards that are read over a network; null: there are none.
std::shared_ptr<HttpEngine> describe_shards(const BenchOptions& options, BenchResult& result) {
  if (options.shards.empty()) return nullptr;
  std::shared_ptr<HttpEngine> engine;
  for (const Shard& shard : bench_shards(options.shards).list()) {
    ++result.num_shards;
    if (const auto bytes = known_size(shard.path)) result.shard_bytes += static_cast<int64_t>(*bytes);
    if (engine == nullptr && RemoteStorage::opens(shard.path)) engine = HttpEngine::of_process();
  }
  return engine;
}

}  // namespace

StartOptions start_options(const BenchOptions& options) {
  StartOptions start = {.threads = options.threads,
                        .ordered = options.ordered,
                        .disabled_rewrites = options.disabled_rewrites,
                        .disk_cache = options.disk_cache,
                        .memory_budget = options.memory_mb << 20,
                        .watchdog = options.watchdog,
                        .on_stall = exit_on_stall,
                        .statistics = options.statistics};
  if (!options.resume.empty()) start.state = PipelineState::parse(read_whole_anywhere(options.resume, "state"));
  return start;
}

BenchResult run_bench(const Dataset& dataset, const BenchOptions& options) {
  BenchResult result;
  result.options = options;
  result.machine = describe_machine();
  const std::shared_ptr<HttpEngine> engine = describe_shards(options, result);
  StreamHash hash;
  uint64_t touched = 0;
  const auto started = Clock::now();
  StartOptions start = start_options(options);
  std::optional<SkippedLog> skipped_log;
  if (!options.skipped_log.empty()) {
    skipped_log.emplace(options.skipped_log, start.state ? start.state->skipped().regions : 0);
    start.on_skip = [&skipped_log](const SkippedRegion& region) { skipped_log->add(region); };
  }
  if (!options.trace.empty()) start.trace = std::make_shared<Trace>();
  const auto disk_cache = start.disk_cache.folder.empty() ? nullptr : DiskCache::open(start.disk_cache);
  const DiskCacheStatistics cached_before = disk_cache == nullptr ? DiskCacheStatistics{} : disk_cache->statistics();
  std::optional<Pipeline> running(dataset.start(start));
  Pipeline& pipeline = *running;
  const SkippedAtError at_error([&running] { return running ? skipped_text(running->skipped()) : std::string(); });
  if (start.state) result.resumed_after = start.state->num_delivered();
  if (options.batches && *options.batches < result.resumed_after) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("--batches {} counts from the start of the stream, and the state is already after "
                                     "batch {}",
                                     *options.batches, result.resumed_after));
  }
  int64_t ordinal = result.resumed_after;
  std::optional<HashLog> log;
  if (!options.hash_log.empty()) log.emplace(options.hash_log, start.state.has_value());
  if (const auto earlier = log ? log->stream_of(ordinal) : std::nullopt) {
    hash = *earlier;
  } else {
    result.hashed_from = ordinal;
  }
  std::optional<StateWriter> states;
  if (!options.state.empty()) states.emplace(options.state);
  const auto save = [&] {
    const auto begin = Clock::now();
    states->write(pipeline.save());
    result.save_seconds += seconds_since(begin);
    ++result.saves;
  };
  // A run of a number of batches measures all of them; a timed one begins after the first batch and the warm-up.
  auto measured_from = started;
  ProcessUsage before = process_usage();
  HttpStatistics requests_before = engine == nullptr ? HttpStatistics{} : engine->statistics();
  bool measuring = options.batches.has_value();
  bool first = true;
  RunSampler sampler(pipeline);
  if (measuring) sampler.begin();
  Progress progress(options, sampler, pipeline);
  LatencyHistogram latencies;
  const auto next = [&] {
    const Clock::time_point begin = Clock::now();
    std::optional<Batch> batch = pipeline.next();
    if (measuring && !first) latencies.add(std::chrono::nanoseconds(Clock::now() - begin).count());
    return batch;
  };
  bool complete = options.batches && ordinal >= *options.batches;
  while (std::optional<Batch> batch = complete ? std::nullopt : next()) {
    if (std::exchange(first, false)) result.first_batch_ms = 1e3 * seconds_since(started);
    if (options.batches || log) {
      const uint64_t digest = batch_hash(*batch);
      hash.add(digest);
      // The line first: a state covers only batches whose lines are written.
      if (log) log->add(ordinal, digest);
    } else {
      touched += touch_rows(batch->block());
    }
    ++ordinal;
    if (states && ordinal % options.state_every == 0) save();
    if (options.consumer_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(options.consumer_us));
    if (!measuring) {
      if (1e-3 * result.first_batch_ms + options.warmup_seconds > seconds_since(started)) continue;
      measuring = true;
      measured_from = Clock::now();
      before = process_usage();
      if (engine != nullptr) requests_before = engine->statistics();
      sampler.begin();
      continue;
    }
    ++result.batches;
    result.records += batch->num_rows();
    result.bytes += batch->block().byte_size();
    const double elapsed = seconds_since(measured_from);
    progress.update(ordinal, result.records, result.bytes, elapsed);
    complete = options.batches ? ordinal == *options.batches : elapsed >= options.seconds;
  }
  if (states) {
    if (complete) save();
    states->finish();
    result.states = states->written();
  }
  if (!complete) {
    throw ErrorException(ErrorCode::kCardinality,
                         fmt::format("the data ends after {} batches of the measurement", result.batches));
  }
  result.wall_seconds = seconds_since(measured_from);
  const ProcessUsage after = process_usage();
  sampler.take(result.records, result.bytes);
  result.samples = sampler.samples();
  const auto percentile = [&latencies](double share) {
    return 1e-3 * static_cast<double>(latencies.percentile_ns(share));
  };
  result.latency = {percentile(0.5), percentile(0.9), percentile(0.99), 1e-3 * static_cast<double>(latencies.max_ns())};
  result.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
  if (disk_cache != nullptr) {
    disk_cache->flush();
    result.disk_cache = disk_cache->statistics() - cached_before;
  }
  if (engine != nullptr) result.requests = engine->statistics() - requests_before;
  result.peak_rss_mb = after.peak_rss_mb;
  result.statistics = pipeline.stats();
  if (options.damage.action == DamagePolicy::kSkip) result.skipped = pipeline.skipped();
  result.threads = result.statistics.threads;
  result.distinct_workers = result.statistics.distinct_workers;
  result.bottleneck = result.statistics.bottleneck();
  if (options.batches) result.stream_hash = hash.hex();
  if (start.trace != nullptr) {
    running.reset();  // nobody records any more
    write_text(options.trace, start.trace->to_json());
    result.trace_dropped = start.trace->num_dropped();
  }
  // Keeps the reads of touch_rows from being removed.
  volatile uint64_t sink = touched;
  (void)sink;
  return result;
}

BenchResult run_rounds(const Dataset& dataset, const BenchOptions& options) {
  for (const std::string& path : {options.html, options.trace}) {
    if (!path.empty()) require_writable(path);
  }
  std::vector<BenchResult> results;
  for (int64_t round = 0; round < options.rounds; ++round) results.push_back(run_bench(dataset, options));
  std::vector<BenchResult::Round> rounds;
  rounds.reserve(results.size());
  for (const BenchResult& result : results) {
    rounds.push_back({.us_wall_per_record = result.us_wall_per_record(),
                      .us_cpu_per_record = result.us_cpu_per_record(),
                      .first_batch_ms = result.first_batch_ms,
                      .p99_us = result.latency.p99_us});
  }
  const auto middle = results.begin() + static_cast<std::ptrdiff_t>((results.size() - 1) / 2);
  std::nth_element(results.begin(), middle, results.end(), [](const BenchResult& a, const BenchResult& b) {
    return a.us_wall_per_record() < b.us_wall_per_record();
  });
  BenchResult result = std::move(*middle);
  if (rounds.size() > 1) result.rounds = std::move(rounds);
  if (!options.html.empty()) write_text(options.html, to_html(result));
  return result;
}

}  // namespace millrace
