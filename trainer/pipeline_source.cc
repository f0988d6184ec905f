#include "millrace/trainer/pipeline_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// An operator that is at work for a larger share of the time than this is what a trainer waits for, when it waits.
constexpr double kBusy = 0.7;

// A single row would be taken for as many rows as its first dimension says.
void need_rows(const Batch& batch, const std::string& feature) {
  const Shape shape = batch.shape(feature);
  if (std::ranges::find(shape, kRagged) != shape.end()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("feature '{}' of shape {} is ragged; models need rows of "
                                                             "one length: call `padded_batch` on the dataset",
                                                             feature, to_string(shape)));
  }
  if (!shape.empty() && shape.front() == batch.num_rows()) return;
  throw ErrorException(ErrorCode::kWrongShape,
                       fmt::format("an element of the pipeline has {} row(s), but feature '{}' has the shape [{}]; "
                                   "a trainer needs batches: call `batch` on the dataset",
                                   batch.num_rows(), feature, fmt::join(shape, ", ")));
}

}  // namespace

GlobalBatch global_batch(Batch batch) {
  const auto owner = std::make_shared<const Batch>(std::move(batch));
  std::vector<FeatureView> features;
  for (const FeatureSpec& feature : owner->schema().features()) {
    const std::string& name = feature.name;
    visit_dtype(feature.dtype, [&]<typename T>() {
      if constexpr (std::is_arithmetic_v<T>) {
        need_rows(*owner, name);
        features.emplace_back(name, owner->values<T>(name), owner->shape(name));
      }
    });
  }
  if (features.empty()) {
    std::vector<std::string_view> names;
    for (const FeatureSpec& feature : owner->schema().features()) names.push_back(feature.name);
    throw ErrorException(
        ErrorCode::kWrongShape,
        fmt::format("the batch has only features of bytes: {}; models read numbers", fmt::join(names, ", ")));
  }
  return {.view = BatchView(std::move(features)), .owner = owner, .epoch = owner->epoch()};
}

std::string limiting_stage(const Statistics& statistics) {
  // A trainer that waits a little, and a pipeline with one worker, whose chains wait for the worker and not for their
  // input, both hide from the pipeline's own rule an operator that is always at work.
  const StageReport* busiest = nullptr;
  double most = kBusy * statistics.wall_seconds;
  for (const StageReport& stage : statistics.stages) {
    const double busy = stage.busy_seconds / (stage.parallel ? statistics.threads : stage.copies);
    if (busy <= most) continue;
    most = busy;
    busiest = &stage;
  }
  return busiest != nullptr ? busiest->name : statistics.bottleneck();
}

std::optional<GlobalBatch> PipelineSource::next() {
  std::optional<Batch> batch = pipeline_.next();
  if (!batch) return std::nullopt;
  return global_batch(*std::move(batch));
}

}  // namespace millrace
