#include "pipeline/dataset_check.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "pipeline/dataset.h"
#include "pipeline/definition/calls.h"

namespace millrace {
namespace {

// More different shapes than that are not told apart.
constexpr size_t kMostShapes = size_t{1} << 16;
// Of a feature, values that are counted.
constexpr size_t kMostValues = 1024;

// Whether the call makes batches, and drops a short last one.
std::optional<bool> drops_remainder(const calls::AnyCall& call) {
  return std::visit(
      []<typename Call>(const Call& one) -> std::optional<bool> {
        if constexpr (requires { one.options.drop_remainder; }) {
          return one.options.drop_remainder;
        } else if constexpr (requires { one.options.padding.drop_remainder; }) {
          return one.options.padding.drop_remainder;
        } else if constexpr (requires { one.batches; }) {
          return std::visit([](const auto& batches) { return batches.drop_remainder; }, one.batches);
        } else {
          return std::nullopt;
        }
      },
      call);
}

// Of the batches nearest to the output.
std::string remainder_of(const PlanNode& node) {
  if (node.call != nullptr) {
    if (std::holds_alternative<calls::Unbatch>(node.call->call)) return "";
    if (const std::optional<bool> drops = drops_remainder(node.call->call)) {
      return fmt::format("{} {} it", node.op->name(), *drops ? "drops" : "keeps");
    }
  }
  return node.inputs.empty() ? "" : remainder_of(*node.inputs[0]);
}

class PaddingCounter {
 public:
  PaddingCounter(const FeatureSpec& feature, bool batched) : feature_(feature), batch_dimensions_(batched ? 1 : 0) {}

  void count(const Batch& batch) {
    switch (feature_.dtype) {
      case DType::kInt32: return count_rows<int32_t>(batch);
      case DType::kInt64: return count_rows<int64_t>(batch);
      case DType::kFloat32: return count_rows<float>(batch);
      case DType::kBytes: return;
    }
  }

  // Nothing where there were no rows.
  std::optional<CheckReport::Padding> padding() const {
    if (values_ == 0) return std::nullopt;
    CheckReport::Padding padding{.feature = feature_.name, .values = values_};
    for (const auto& [value, padded] : padded_) {
      if (padded < padding.padded || (padded == padding.padded && !padding.value.empty())) continue;
      padding.padded = padded;
      padding.value = fmt::to_string(value);
    }
    return padding;
  }

 private:
  template <typename T>
  void count_rows(const Batch& batch) {
    const Column& column = batch.block().column(feature_.name);
    if (column.is_ragged()) return;
    const Shape shape = column.shape(0);
    if (shape.size() <= batch_dimensions_ || shape.back() == 0) return;
    const auto values = batch.values<T>(feature_.name);
    const auto length = static_cast<size_t>(shape.back());
    values_ += static_cast<int64_t>(values.size());
    for (size_t begin = 0; begin < values.size(); begin += length) {
      const T last = values[begin + length - 1];
      size_t run = 1;
      while (run < length && values[begin + length - 1 - run] == last) ++run;
      const auto value = static_cast<double>(last);
      if (run < 2 || (padded_.size() >= kMostValues && !padded_.contains(value))) continue;
      padded_[value] += static_cast<int64_t>(run);
    }
  }

  const FeatureSpec& feature_;
  const size_t batch_dimensions_;
  int64_t values_ = 0;
  std::map<double, int64_t> padded_;  // by value
};

std::string shapes_of(const Batch& batch) {
  std::string text;
  for (const FeatureSpec& feature : batch.schema().features()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", feature.name, to_string(batch.shape(feature.name)));
  }
  return text;
}

void look_at(const Dataset& dataset, const CheckOptions& options, const StartOptions& start, CheckReport& report) {
  std::unordered_map<std::string, size_t> places;
  std::vector<PaddingCounter> counters;
  for (const FeatureSpec& feature : report.spec) counters.emplace_back(feature, !report.remainder.empty());
  Pipeline pipeline = dataset.start(start);
  while (options.elements == 0 || report.elements < options.elements) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) {
      report.whole = true;
      break;
    }
    std::string shapes = shapes_of(*batch);
    auto place = places.find(shapes);
    if (place == places.end() && report.shapes.size() < kMostShapes) {
      place = places.emplace(shapes, report.shapes.size()).first;
      report.shapes.push_back({.shapes = std::move(shapes), .first = report.elements});
    }
    ++(place == places.end() ? report.elements_of_more_shapes : report.shapes[place->second].elements);
    ++report.elements;
    report.rows += batch->num_rows();
    for (PaddingCounter& counter : counters) counter.count(*batch);
    if (options.on_element) options.on_element(report.elements);
  }
  for (const PaddingCounter& counter : counters) {
    if (const auto padding = counter.padding()) report.padding.push_back(*padding);
  }
}

void judge(const CheckOptions& options, CheckReport& report) {
  if (options.known_cardinality && !report.cardinality.is_known()) {
    report.broken.push_back(fmt::format("the cardinality is {}", report.cardinality.to_string()));
  }
  for (const FeatureSpec& feature : report.spec) {
    if (options.fixed_shapes && !feature.has_fixed_shape()) {
      report.broken.push_back(
          fmt::format("the shape of '{}', {}, is not fixed", feature.name, to_string(feature.shape)));
    }
  }
  const auto num_shapes = static_cast<int64_t>(report.shapes.size());
  if (options.max_distinct_shapes && *options.max_distinct_shapes < num_shapes) {
    const CheckReport::Shapes& beyond = report.shapes[static_cast<size_t>(*options.max_distinct_shapes)];
    report.broken.push_back(
        fmt::format("{} different shapes, at most {} are wanted; element {} brings one too many: {}", num_shapes,
                    *options.max_distinct_shapes, beyond.first, beyond.shapes));
  }
  for (const auto& [feature, most] : options.max_padding) {
    const bool is_counted = std::any_of(report.padding.begin(), report.padding.end(),
                                        [&name = feature](const auto& padding) { return padding.feature == name; });
    if (!is_counted)
      report.broken.push_back(fmt::format("no padding of '{}' could be counted: it has no rows", feature));
  }
  for (const CheckReport::Padding& padding : report.padding) {
    const auto most = options.max_padding.find(padding.feature);
    if (most == options.max_padding.end() || padding.share() <= most->second) continue;
    report.broken.push_back(fmt::format("{:.1f}% of '{}' are padding, at most {:.1f}% are wanted",
                                        100 * padding.share(), padding.feature, 100 * most->second));
  }
}

}  // namespace

CheckReport Dataset::check(const CheckOptions& options, const StartOptions& start) const {
  const auto refuse = [](const std::string& message) {
    throw ErrorException(ErrorCode::kInvalidArgument, "check: " + message);
  };
  if (options.elements < 0) refuse(fmt::format("elements is {}, must be at least 0", options.elements));
  if (options.max_distinct_shapes && *options.max_distinct_shapes < 1) {
    refuse(fmt::format("max_distinct_shapes is {}, must be at least 1", *options.max_distinct_shapes));
  }
  for (const auto& [feature, share] : options.max_padding) {
    const FeatureSpec& spec = schema()[static_cast<size_t>(schema().column(feature))];
    if (spec.dtype == DType::kBytes || spec.is_ragged()) {
      refuse(
          fmt::format("max_padding of '{}', which is {} and has none", feature, spec.is_ragged() ? "ragged" : "bytes"));
    }
    if (!(share >= 0 && share <= 1)) refuse(fmt::format("max_padding of '{}' is {}, must be 0 to 1", feature, share));
  }
  CheckReport report;
  report.spec = schema().features();
  report.cardinality = cardinality();
  report.remainder = remainder_of(*plan());
  if (options.elements == 0 && certain_cardinality(*plan()).is_infinite())
    refuse("all elements are asked for, of data without an end");
  look_at(*this, options, start, report);
  judge(options, report);
  return report;
}

std::string CheckReport::to_string() const {
  std::string text = "spec\n";
  for (const FeatureSpec& feature : spec) {
    text += fmt::format("  {} {} {}{}\n", feature.name, millrace::to_string(feature.dtype),
                        millrace::to_string(feature.shape), feature.has_fixed_shape() ? "" : ", not fixed");
  }
  text += fmt::format("cardinality: {}\n", cardinality.to_string());
  text += fmt::format("a short last batch: {}\n", remainder.empty() ? "nothing batches" : remainder);
  text += fmt::format("read: {} elements, {} rows, {}\n", elements, rows, whole ? "all there are" : "there are more");
  text += fmt::format(
      "different shapes: {}{}\n", shapes.size(),
      elements_of_more_shapes == 0 ? "" : fmt::format(", and others in {} elements", elements_of_more_shapes));
  constexpr size_t kMostShown = 20;
  for (size_t i = 0; i < std::min(shapes.size(), kMostShown); ++i) {
    text += fmt::format("  {} times, first element {}: {}\n", shapes[i].elements, shapes[i].first, shapes[i].shapes);
  }
  if (shapes.size() > kMostShown) text += fmt::format("  and {} more\n", shapes.size() - kMostShown);
  if (!padding.empty()) text += "equal values at the ends of rows, what padding looks like\n";
  for (const Padding& feature : padding) {
    text += fmt::format("  {}: {:.1f}%{}\n", feature.feature, 100 * feature.share(),
                        feature.padded == 0 ? "" : " are " + feature.value);
  }
  for (const std::string& what : broken) text += "NOT AS ASKED FOR: " + what + "\n";
  return text;
}

}  // namespace millrace
