#include "benchmarks/check_run.h"

#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bench_run.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/json/names.h"

namespace millrace {
namespace {

std::string to_json(const CheckReport& report) {
  nlohmann::ordered_json json;
  for (const FeatureSpec& feature : report.spec) {
    json["spec"].push_back({{"name", feature.name}, {"dtype", to_string(feature.dtype)}, {"shape", feature.shape}});
  }
  json["cardinality"] = report.cardinality.to_string();
  json["remainder"] = report.remainder;
  json["elements"] = report.elements;
  json["rows"] = report.rows;
  json["whole"] = report.whole;
  json["distinct_shapes"] = report.shapes.size();
  json["shapes"] = nlohmann::ordered_json::array();
  for (const CheckReport::Shapes& shapes : report.shapes) {
    json["shapes"].push_back({{"shapes", shapes.shapes}, {"elements", shapes.elements}, {"first", shapes.first}});
  }
  json["padding"] = nlohmann::ordered_json::array();
  for (const PaddingCount& count : report.padding) {
    json["padding"].push_back({{"operator", count.op},
                               {"feature", count.feature},
                               {"elements", count.elements},
                               {"values", count.values},
                               {"padded", count.padded},
                               {"share", count.share()}});
  }
  json["without_values"] = report.without_values;
  json["broken"] = report.broken;
  return json_line(json);
}

}  // namespace

int run_check(const Dataset& dataset, const BenchOptions& options) {
  std::optional<TerminalLine> line(std::in_place);
  const CheckReport report = dataset.check({.elements = options.check_elements,
                                            .max_distinct_shapes = options.max_distinct_shapes,
                                            .max_padding = options.max_padding,
                                            .fixed_shapes = options.fixed_shapes,
                                            .known_cardinality = options.known_cardinality,
                                            .on_element =
                                                [&line](int64_t elements) {
                                                  if (line->due())
                                                    line->show(fmt::format("checked {} elements", elements));
                                                }},
                                           start_options(options));
  line.reset();
  std::cout << (options.json ? to_json(report) + "\n" : report.to_string());
  return report.broken.empty() ? 0 : 1;
}

}  // namespace millrace
