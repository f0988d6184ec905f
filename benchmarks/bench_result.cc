#include "benchmarks/bench_result.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bottleneck_text.h"
#include "millrace/formats/json/names.h"

namespace millrace {
namespace {

using nlohmann::ordered_json;

ordered_json skipped_json(const SkipReport& skipped) {
  ordered_json regions = ordered_json::array();
  for (const SkippedRegion& region : skipped.regions) regions.push_back(region.to_string());
  return {{"regions", skipped.counts.regions},
          {"records", skipped.counts.records},
          {"regions_of_unknown_records", skipped.counts.regions_of_unknown_records},
          {"bytes", skipped.counts.bytes},
          {"digest", fmt::format("{:016x}", skipped.counts.digest)},
          {"list", std::move(regions)}};
}

ordered_json options_json(const BenchOptions& options) {
  ordered_json json = {{"threads", options.threads},
                       {"batch", options.batch},
                       {"shuffle", options.shuffle},
                       {"cycle_length", options.cycle_length},
                       {"block_length", options.block_length},
                       {"chunk_bytes", options.chunk_bytes},
                       {"read_ahead", options.read_ahead},
                       {"prefetch", options.prefetch},
                       {"cache", options.cache},
                       {"seed", options.seed},
                       {"ordered", options.ordered},
                       {"memory_mb", options.memory_mb},
                       {"consumer_us", options.consumer_us},
                       {"disabled_rewrites", options.disabled_rewrites}};
  if (options.batches) {
    json["batches"] = *options.batches;
  } else {
    json["seconds"] = options.seconds;
    json["warmup_seconds"] = options.warmup_seconds;
  }
  return json;
}

ordered_json stages_json(const Statistics& statistics) {
  ordered_json stages = ordered_json::array();
  for (const StageReport& stage : statistics.stages) {
    stages.push_back({{"name", stage.name},
                      {"segment", stage.segment},
                      {"inputs", stage.inputs},
                      {"parallel", stage.parallel},
                      {"copies", stage.copies},
                      {"rows", stage.rows},
                      {"bytes", stage.bytes},
                      {"errors", stage.errors},
                      {"lost_bytes", stage.lost_bytes},
                      {"busy_s", stage.busy_seconds},
                      {"in_wait_s", stage.waiting_for_input_seconds},
                      {"out_wait_s", stage.waiting_for_output_seconds},
                      {"queue_slots", stage.queue_slots},
                      {"queue_high_water", stage.queue_high_water}});
  }
  return stages;
}

ordered_json samples_json(const std::vector<RunSample>& samples) {
  ordered_json json = ordered_json::array();
  for (const RunSample& sample : samples) {
    ordered_json busy = ordered_json::array();
    ordered_json queue = ordered_json::array();
    for (const StageReport& stage : sample.stages) {
      busy.push_back(stage.busy_seconds);
      queue.push_back(stage.queue);
    }
    json.push_back({{"s", sample.seconds},
                    {"records", sample.records},
                    {"bytes", sample.bytes},
                    {"cpu_s", sample.cpu_seconds},
                    {"rss_mb", sample.rss_mb},
                    {"consumer_waiting_s", sample.consumer_waiting_seconds},
                    {"busy_s", std::move(busy)},
                    {"queue", std::move(queue)}});
  }
  return json;
}

double milliseconds(std::chrono::nanoseconds time) { return 1e-6 * static_cast<double>(time.count()); }

double mean_first_byte_ms(const HttpStatistics& requests) {
  return milliseconds(requests.first_byte) / static_cast<double>(std::max<uint64_t>(1, requests.answers));
}

ordered_json rounds_json(const std::vector<BenchResult::Round>& rounds) {
  ordered_json json = ordered_json::array();
  for (const BenchResult::Round& round : rounds) {
    json.push_back({{"us_wall_per_record", round.us_wall_per_record},
                    {"us_cpu_per_record", round.us_cpu_per_record},
                    {"first_batch_ms", round.first_batch_ms},
                    {"next_p99_us", round.p99_us}});
  }
  return json;
}

}  // namespace

double BenchResult::us_wall_per_record() const {
  return 1e6 * wall_seconds / static_cast<double>(std::max<int64_t>(1, records));
}

double BenchResult::us_cpu_per_record() const {
  return 1e6 * cpu_seconds / static_cast<double>(std::max<int64_t>(1, records));
}

ordered_json to_json(const BenchResult& result) {
  ordered_json json;
  json["workload"] = result.options.workload;
  json["records"] = result.records;
  json["records_per_s"] = static_cast<double>(result.records) / result.wall_seconds;
  json["bytes_per_s"] = static_cast<double>(result.bytes) / result.wall_seconds;
  json["us_wall_per_record"] = result.us_wall_per_record();
  json["us_cpu_per_record"] = result.us_cpu_per_record();
  json["first_batch_ms"] = result.first_batch_ms;
  json["peak_rss_mb"] = result.peak_rss_mb;
  json["threads"] = result.threads;
  json["distinct_workers"] = result.distinct_workers;
  json["bottleneck"] = result.bottleneck;
  json["limited_by"] = bottleneck_text(result.statistics);
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
  json["next_us"] = {{"p50", result.latency.p50_us},
                     {"p90", result.latency.p90_us},
                     {"p99", result.latency.p99_us},
                     {"max", result.latency.max_us}};
  if (result.requests) {
    const HttpStatistics& requests = *result.requests;
    json["requests"] = {{"number", requests.requests},
                        {"retries", requests.retries},
                        {"hedged", requests.hedged},
                        {"bytes", requests.bytes},
                        {"bytes_per_s", static_cast<double>(requests.bytes) / result.wall_seconds},
                        {"mean_first_byte_ms", mean_first_byte_ms(requests)},
                        {"longest_first_byte_ms", milliseconds(requests.longest_first_byte)}};
  }
  if (result.disk_cache) {
    const DiskCacheStatistics& cache = *result.disk_cache;
    json["disk_cache"] = {{"hit_bytes", cache.hit_bytes},           {"missed_bytes", cache.missed_bytes},
                          {"written_bytes", cache.written_bytes},   {"dropped_bytes", cache.dropped_bytes},
                          {"damaged_blocks", cache.damaged_blocks}, {"uncached_files", cache.uncached_files}};
    if (!cache.ended.empty()) json["disk_cache"]["ended"] = cache.ended;
  }
  json["pipeline_s"] = result.statistics.wall_seconds;
  json["consumer_waiting_s"] = result.statistics.consumer_waiting_seconds;
  json["stages"] = stages_json(result.statistics);
  json["samples"] = samples_json(result.samples);
  if (!result.rounds.empty()) json["rounds"] = rounds_json(result.rounds);
  if (result.trace_dropped) json["trace_dropped"] = *result.trace_dropped;
  json["options"] = options_json(result.options);
  if (result.num_shards > 0) {
    auto& shards = json["shards"];
    put_name(shards, "pattern", result.options.shards);
    shards["files"] = result.num_shards;
    shards["bytes"] = result.shard_bytes;
  }
  json["machine"] = {{"processor", result.machine.processor},
                     {"cores", result.machine.cores},
                     {"memory_mb", result.machine.memory_mb},
                     {"system", result.machine.system}};
  return json;
}

std::string to_table(const BenchResult& result) {
  std::string text = result.statistics.to_string();
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<20} {}\n", name, value);
  };
  text += "\n";
  row("workload", result.options.workload);
  row("records", fmt::format("{} in {} batches, {:.2f} s", result.records, result.batches, result.wall_seconds));
  row("records/s", fmt::format("{:.0f}", static_cast<double>(result.records) / result.wall_seconds));
  row("MB/s", fmt::format("{:.1f}", 1e-6 * static_cast<double>(result.bytes) / result.wall_seconds));
  row("us wall per record", fmt::format("{:.4f}", result.us_wall_per_record()));
  row("us CPU per record", fmt::format("{:.4f}", result.us_cpu_per_record()));
  row("first batch", fmt::format("{:.1f} ms", result.first_batch_ms));
  row("next()", fmt::format("p50 {:.1f} us, p90 {:.1f}, p99 {:.1f}, max {:.1f}", result.latency.p50_us,
                            result.latency.p90_us, result.latency.p99_us, result.latency.max_us));
  if (result.requests) {
    const HttpStatistics& requests = *result.requests;
    row("requests",
        fmt::format("{}, {} of them again, {} a second time; {:.1f} MB/s; first byte after {:.1f} ms, at most {:.1f}",
                    requests.requests, requests.retries, requests.hedged,
                    1e-6 * static_cast<double>(requests.bytes) / result.wall_seconds, mean_first_byte_ms(requests),
                    milliseconds(requests.longest_first_byte)));
  }
  if (result.disk_cache) {
    const DiskCacheStatistics& cache = *result.disk_cache;
    const auto megabytes = [](uint64_t bytes) { return 1e-6 * static_cast<double>(bytes); };
    std::string came = fmt::format("{:.1f} MB from it, {:.1f} from the store; {:.1f} written, {:.1f} given up",
                                   megabytes(cache.hit_bytes), megabytes(cache.missed_bytes),
                                   megabytes(cache.written_bytes), megabytes(cache.dropped_bytes));
    if (cache.damaged_blocks > 0) came += fmt::format("; {} damaged blocks", cache.damaged_blocks);
    if (cache.uncached_files > 0) came += fmt::format("; {} files without a generation or tag", cache.uncached_files);
    row("disk cache", came);
  }
  row("peak RSS", fmt::format("{:.0f} MB", result.peak_rss_mb));
  row("threads", fmt::format("{} ({} ran)", result.threads, result.distinct_workers));
  row("limited by", result.bottleneck);
  if (result.stream_hash) {
    row("stream_hash", result.hashed_from == 0
                           ? *result.stream_hash
                           : fmt::format("{} (from batch {} on)", *result.stream_hash, result.hashed_from));
  }
  if (!result.rounds.empty()) {
    const auto [least, most] =
        std::minmax_element(result.rounds.begin(), result.rounds.end(),
                            [](const auto& a, const auto& b) { return a.us_wall_per_record < b.us_wall_per_record; });
    row("rounds", fmt::format("{}, {:.4f} to {:.4f} us wall per record; the median one is above", result.rounds.size(),
                              least->us_wall_per_record, most->us_wall_per_record));
  }
  if (result.trace_dropped && *result.trace_dropped > 0) {
    row("trace", fmt::format("{} older events had no room", *result.trace_dropped));
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
