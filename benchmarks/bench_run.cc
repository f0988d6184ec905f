#include "benchmarks/bench_run.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/hash_log.h"
#include "benchmarks/process_usage.h"
#include "benchmarks/touch_rows.h"
#include "command_line/skipped_at_error.h"
#include "command_line/skipped_log.h"
#include "command_line/terminal_line.h"
#include "formats/storage/whole_file.h"
#include "pipeline/stream_hash.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// What has come so far, and since the measurement began.
class Progress {
 public:
  explicit Progress(const BenchOptions& options) : options_(options) {}

  void update(int64_t batches, int64_t records, double elapsed) {
    if (!line_.due()) return;
    const std::string end = options_.batches ? fmt::format("{} of {} batches", batches, *options_.batches)
                                             : fmt::format("{:.1f} of {:.1f} s", elapsed, options_.seconds);
    line_.show(fmt::format("{}: {}, {:.0f} records/s", options_.workload, end,
                           static_cast<double>(records) / std::max(elapsed, 1e-9)));
  }

 private:
  const BenchOptions& options_;
  TerminalLine line_;
};

std::string skipped_text(const SkipReport& skipped) { return skipped.counts.regions > 0 ? skipped.to_string() : ""; }

nlohmann::ordered_json skipped_json(const SkipReport& skipped) {
  nlohmann::ordered_json regions = nlohmann::ordered_json::array();
  for (const SkippedRegion& region : skipped.regions) regions.push_back(region.to_string());
  return {{"regions", skipped.counts.regions},
          {"records", skipped.counts.records},
          {"regions_of_unknown_records", skipped.counts.regions_of_unknown_records},
          {"bytes", skipped.counts.bytes},
          {"digest", fmt::format("{:016x}", skipped.counts.digest)},
          {"list", std::move(regions)}};
}

}  // namespace

StartOptions start_options(const BenchOptions& options) {
  StartOptions start = {.threads = options.threads,
                        .ordered = options.ordered,
                        .disabled_rewrites = options.disabled_rewrites,
                        .memory_budget = options.memory_mb << 20,
                        .watchdog = options.watchdog,
                        .on_stall = exit_on_stall};
  if (!options.resume.empty()) start.state = PipelineState::parse(read_whole_file(options.resume, "state"));
  return start;
}

BenchResult run_bench(const Dataset& dataset, const BenchOptions& options) {
  BenchResult result;
  result.workload = options.workload;
  StreamHash hash;
  uint64_t touched = 0;
  const auto started = Clock::now();
  StartOptions start = start_options(options);
  std::optional<SkippedLog> skipped_log;
  if (!options.skipped_log.empty()) {
    skipped_log.emplace(options.skipped_log, start.state ? start.state->skipped().regions : 0);
    start.on_skip = [&skipped_log](const SkippedRegion& region) { skipped_log->add(region); };
  }
  Pipeline pipeline = dataset.start(start);
  const SkippedAtError at_error([&pipeline] { return skipped_text(pipeline.skipped()); });
  if (start.state) result.resumed_after = start.state->num_delivered();
  if (options.batches && *options.batches < result.resumed_after) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("--batches {} counts from the start of the stream, and the state is already behind "
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
  bool measuring = options.batches.has_value();
  bool first = true;
  Progress line(options);
  bool complete = options.batches && ordinal >= *options.batches;
  while (std::optional<Batch> batch = complete ? std::nullopt : pipeline.next()) {
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
      continue;
    }
    ++result.batches;
    result.records += batch->num_rows();
    result.bytes += batch->block().byte_size();
    const double elapsed = seconds_since(measured_from);
    line.update(options.batches ? ordinal : result.batches, result.records, elapsed);
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
  result.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
  result.peak_rss_mb = after.peak_rss_mb;
  result.statistics = pipeline.stats();
  if (options.damage.action == DamagePolicy::kSkip) result.skipped = pipeline.skipped();
  result.threads = result.statistics.threads;
  result.distinct_workers = result.statistics.distinct_workers;
  result.bottleneck = result.statistics.bottleneck();
  if (options.batches) result.stream_hash = hash.hex();
  // Keeps the reads of touch_rows from being removed.
  volatile uint64_t sink = touched;
  (void)sink;
  return result;
}

std::string to_json(const BenchResult& result) {
  const double records = std::max<double>(1, static_cast<double>(result.records));
  nlohmann::ordered_json json;
  json["workload"] = result.workload;
  json["records"] = result.records;
  json["records_per_s"] = static_cast<double>(result.records) / result.wall_seconds;
  json["bytes_per_s"] = static_cast<double>(result.bytes) / result.wall_seconds;
  json["us_wall_per_record"] = 1e6 * result.wall_seconds / records;
  json["us_cpu_per_record"] = 1e6 * result.cpu_seconds / records;
  json["first_batch_ms"] = result.first_batch_ms;
  json["peak_rss_mb"] = result.peak_rss_mb;
  json["threads"] = result.threads;
  json["distinct_workers"] = result.distinct_workers;
  json["bottleneck"] = result.bottleneck;
  json["batches"] = result.batches;
  json["stream_hash"] = nullptr;
  if (result.stream_hash) json["stream_hash"] = *result.stream_hash;
  json["peak_buffer_mb"] = static_cast<double>(result.statistics.peak_buffer_bytes) / (1 << 20);
  if (result.stream_hash && result.hashed_from > 0) json["stream_hash_from"] = result.hashed_from;
  if (result.resumed_after > 0) json["resumed_after"] = result.resumed_after;
  if (result.skipped) json["skipped"] = skipped_json(*result.skipped);
  if (result.states.states > 0) {
    const auto states = static_cast<double>(result.states.states);
    json["states"] = result.states.states;
    json["state_bytes"] = result.states.last_bytes;
    for (const PipelineState::Part& part : result.states.last_parts) {
      json["state_parts"].push_back({{"stage", part.name}, {"stages", part.stages}, {"bytes", part.bytes}});
    }
    json["state_take_us"] = 1e6 * result.save_seconds / static_cast<double>(result.saves);
    json["state_serialize_us"] = 1e6 * result.states.serialize_seconds / states;
    json["state_first_serialize_us"] = 1e6 * result.states.first_serialize_seconds;
  }
  return json.dump();
}

std::string to_table(const BenchResult& result) {
  const double records = std::max<double>(1, static_cast<double>(result.records));
  std::string text = result.statistics.to_string();
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<20} {}\n", name, value);
  };
  text += "\n";
  row("workload", result.workload);
  row("records", fmt::format("{} in {} batches, {:.2f} s", result.records, result.batches, result.wall_seconds));
  row("records/s", fmt::format("{:.0f}", static_cast<double>(result.records) / result.wall_seconds));
  row("MB/s", fmt::format("{:.1f}", 1e-6 * static_cast<double>(result.bytes) / result.wall_seconds));
  row("us wall per record", fmt::format("{:.4f}", 1e6 * result.wall_seconds / records));
  row("us CPU per record", fmt::format("{:.4f}", 1e6 * result.cpu_seconds / records));
  row("first batch", fmt::format("{:.1f} ms", result.first_batch_ms));
  row("peak RSS", fmt::format("{:.0f} MB", result.peak_rss_mb));
  row("threads", fmt::format("{} ({} ran)", result.threads, result.distinct_workers));
  row("limited by", result.bottleneck);
  if (result.stream_hash) {
    row("stream_hash", result.hashed_from == 0
                           ? *result.stream_hash
                           : fmt::format("{} (from batch {} on)", *result.stream_hash, result.hashed_from));
  }
  if (result.resumed_after > 0) row("resumed after", fmt::format("{} batches", result.resumed_after));
  if (result.skipped) text += result.skipped->to_string();
  if (result.states.states > 0) {
    const auto states = static_cast<double>(result.states.states);
    row("states",
        fmt::format("{} of {} bytes; {:.2f} us to take, {:.0f} us to serialise (the first {:.0f} us)",
                    result.states.states, result.states.last_bytes,
                    1e6 * result.save_seconds / static_cast<double>(result.saves),
                    1e6 * result.states.serialize_seconds / states, 1e6 * result.states.first_serialize_seconds));
    for (const PipelineState::Part& part : result.states.last_parts) {
      row("", fmt::format("{:>6} bytes: {}{}", part.bytes, part.name,
                          part.stages > 1 ? fmt::format(", {} of them", part.stages) : ""));
    }
  }
  return text;
}

}  // namespace millrace
