#include "trainer/pipeline_source.h"

#include <utility>

namespace millrace {
namespace {

// An operator that works for a larger share of the time than this may be what a trainer waits for now and then.
constexpr double kBusy = 0.7;

}  // namespace

GlobalBatch global_batch(Batch batch) {
  const auto owner = std::make_shared<const Batch>(std::move(batch));
  std::vector<FeatureView> features;
  for (const FeatureSpec& feature : owner->schema().features()) {
    const std::string& name = feature.name;
    switch (feature.dtype) {
      case DType::kInt32: features.emplace_back(name, owner->values<int32_t>(name), owner->shape(name)); break;
      case DType::kInt64: features.emplace_back(name, owner->values<int64_t>(name), owner->shape(name)); break;
      case DType::kFloat32: features.emplace_back(name, owner->values<float>(name), owner->shape(name)); break;
      case DType::kBytes: break;
    }
  }
  return {.view = BatchView(std::move(features)), .owner = owner, .epoch = owner->epoch()};
}

std::string limiting_stage(const Statistics& statistics) {
  std::string bottleneck = statistics.bottleneck();
  if (bottleneck != "consumer") return bottleneck;
  // The trainer waits for less than 30% of the time. When it waits at all, it waits for the operator that is always at
  // work; where none is, for chance.
  double most = kBusy * statistics.wall_seconds;
  for (const StageReport& stage : statistics.stages) {
    const double busy = stage.busy_seconds / (stage.parallel ? statistics.threads : stage.copies);
    if (busy <= most) continue;
    most = busy;
    bottleneck = stage.name;
  }
  return bottleneck;
}

std::optional<GlobalBatch> PipelineSource::next() {
  std::optional<Batch> batch = pipeline_.next();
  if (!batch) return std::nullopt;
  return global_batch(*std::move(batch));
}

}  // namespace millrace
