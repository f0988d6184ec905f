#include "benchmarks/result_comparison.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using nlohmann::ordered_json;
using Line = ResultComparison::Line;

constexpr double kUnknownNoise = 0.1;
constexpr size_t kMostOfMachine = 400;

[[noreturn]] void refuse(const std::string& what, const ordered_json& before, const ordered_json& after) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("--compare: the results are of different {}: {} and {}",
                                                                what, shown_json(before), shown_json(after)));
}

// What decides the stream must be the same; what does not is told.
void check_streams(const ordered_json& before, const ordered_json& after, std::vector<std::string>& remarks) {
  if (before.at("workload") != after.at("workload")) refuse("workloads", before.at("workload"), after.at("workload"));
  for (const char* option : {"batch", "shuffle", "cycle_length", "block_length", "seed", "ordered"}) {
    const ordered_json& of_before = before.at("options").at(option);
    const ordered_json& of_after = after.at("options").at(option);
    if (of_before != of_after) refuse(fmt::format("streams, {}", option), of_before, of_after);
  }
  const ordered_json none;
  const ordered_json& shards_before = before.contains("shards") ? before.at("shards") : none;
  const ordered_json& shards_after = after.contains("shards") ? after.at("shards") : none;
  if (shards_before.is_null() != shards_after.is_null()) refuse("shards", shards_before, shards_after);
  if (!shards_before.is_null() && (shards_before.at("files") != shards_after.at("files") ||
                                   shards_before.at("bytes") != shards_after.at("bytes"))) {
    refuse("shards", shards_before, shards_after);
  }
  const ordered_json& hash_before = before.at("stream_hash");
  const ordered_json& hash_after = after.at("stream_hash");
  const auto begin = [](const ordered_json& result) { return result.value("stream_hash_from", 0); };
  if (!hash_before.is_null() && !hash_after.is_null() && before.at("batches") == after.at("batches") &&
      begin(before) == begin(after) && hash_before != hash_after) {
    refuse("streams, stream_hash", hash_before, hash_after);
  }
  for (const char* option : {"threads", "prefetch", "cache", "memory_mb", "consumer_us", "disabled_rewrites"}) {
    const ordered_json& of_before = before.at("options").at(option);
    const ordered_json& of_after = after.at("options").at(option);
    if (of_before != of_after) {
      remarks.push_back(fmt::format("{} was {}, then {}", option, shown_json(of_before), shown_json(of_after)));
    }
  }
  if (before.at("machine") != after.at("machine")) {
    remarks.push_back(fmt::format("the machine was {}, then {}", shown_json(before.at("machine"), kMostOfMachine),
                                  shown_json(after.at("machine"), kMostOfMachine)));
  }
}

struct Range {
  double least;
  double most;
};

Range range_of(const ordered_json& result, const char* in_rounds, double value) {
  if (!result.contains("rounds")) return {value * (1 - kUnknownNoise / 2), value * (1 + kUnknownNoise / 2)};
  Range range = {value, value};
  for (const ordered_json& round : result.at("rounds")) {
    const double of_round = round.at(in_rounds);
    range = {std::min(range.least, of_round), std::max(range.most, of_round)};
  }
  return range;
}

std::map<std::string, double> work_of_stages(const ordered_json& result, std::vector<std::string>& names) {
  // Stages count from the start of the pipeline on, so its rows are those of the last stage.
  std::map<std::string, double> work;
  const ordered_json& stages = result.at("stages");
  if (stages.empty()) return work;
  const double rows = std::max<double>(1, stages.back().at("rows").get<double>());
  for (const ordered_json& stage : stages) {
    const std::string name = stage.at("name");
    names.push_back(name);
    work[name] = 1e6 * stage.at("busy_s").get<double>() / rows;
  }
  return work;
}

}  // namespace

ResultComparison compare_results(const ordered_json& before, const ordered_json& after) {
  ResultComparison comparison;
  try {
    check_streams(before, after, comparison.remarks);
    const auto add = [&](const char* name, double of_before, double of_after, const char* in_rounds) {
      Line line{.name = name, .before = of_before, .after = of_after};
      if (in_rounds != nullptr) {
        const Range a = range_of(before, in_rounds, of_before);
        const Range b = range_of(after, in_rounds, of_after);
        line.differs = a.most < b.least || b.most < a.least;
      } else {
        line.differs = std::abs(line.ratio() - 1) > kUnknownNoise;
      }
      comparison.metrics.push_back(std::move(line));
    };
    const auto number = [](const ordered_json& result, const char* name) { return result.at(name).get<double>(); };
    const auto both = [&](const char* title, const char* name, const char* in_rounds) {
      add(title, number(before, name), number(after, name), in_rounds);
    };
    both("us wall per record", "us_wall_per_record", "us_wall_per_record");
    both("us CPU per record", "us_cpu_per_record", "us_cpu_per_record");
    both("first batch, ms", "first_batch_ms", "first_batch_ms");
    for (const char* percentile : {"p50", "p90"}) {
      add(percentile[1] == '5' ? "next() p50, us" : "next() p90, us", number(before.at("next_us"), percentile),
          number(after.at("next_us"), percentile), nullptr);
    }
    add("next() p99, us", number(before.at("next_us"), "p99"), number(after.at("next_us"), "p99"), "next_p99_us");
    both("peak RSS, MB", "peak_rss_mb", nullptr);
    comparison.slowdown = comparison.metrics.front().ratio();
    std::vector<std::string> names;
    std::vector<std::string> names_after;
    const std::map<std::string, double> work_before = work_of_stages(before, names);
    const std::map<std::string, double> work_after = work_of_stages(after, names_after);
    for (const std::string& name : names) {
      const auto found = work_after.find(name);
      if (found == work_after.end()) {
        comparison.remarks.push_back(fmt::format("stage {} is in the first result only", name));
        continue;
      }
      const double of_before = work_before.at(name);
      Line line{.name = name, .before = of_before, .after = found->second};
      line.differs = of_before > 0 && std::abs(line.ratio() - 1) > kUnknownNoise;
      comparison.stages.push_back(std::move(line));
    }
    for (const std::string& name : names_after) {
      if (work_before.contains(name)) continue;
      comparison.remarks.push_back(fmt::format("stage {} is in the second result only", name));
    }
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException(ErrorCode::kParse,
                         fmt::format("--compare: this is no result of dataset_bench --json: {}", error.what()));
  }
  return comparison;
}

ResultComparison compare_result_files(const std::string& before, const std::string& after) {
  const auto read = [](const std::string& path) {
    return parse_json<ordered_json>(read_whole_file(path, "result"), path);
  };
  return compare_results(read(before), read(after));
}

std::string ResultComparison::to_table() const {
  size_t width = 20;
  for (const auto* lines : {&metrics, &stages}) {
    for (const Line& line : *lines) width = std::max(width, printable(line.name).size());
  }
  std::string text;
  const auto add = [&](const std::string& title, const std::vector<Line>& lines) {
    text += fmt::format("{:<{}} {:>12} {:>12} {:>8}\n", title, width, "first", "second", "ratio");
    for (const Line& line : lines) {
      const char* word = !line.differs ? "" : line.after > line.before ? "  more" : "  less";
      text += fmt::format("{:<{}} {:>12.4f} {:>12.4f} {:>8.3f}{}\n", printable(line.name), width, line.before,
                          line.after, line.ratio(), word);
    }
  };
  add("", metrics);
  text += "\n";
  add("us of work per row", stages);
  for (const std::string& remark : remarks) text += printable(remark) + "\n";
  return text + "marked: beyond the spread of the rounds, or by more than 10% where that is not known\n";
}

std::string ResultComparison::to_json() const {
  const auto list = [](const std::vector<Line>& lines) {
    ordered_json json = ordered_json::array();
    for (const Line& line : lines) {
      json.push_back({{"name", line.name},
                      {"first", line.before},
                      {"second", line.after},
                      {"ratio", line.ratio()},
                      {"differs", line.differs}});
    }
    return json;
  };
  const ordered_json json = {
      {"slowdown", slowdown}, {"metrics", list(metrics)}, {"stages", list(stages)}, {"remarks", remarks}};
  return json_line(json);
}

}  // namespace millrace
