#include "trainer/pipeline_source.h"

#include <utility>

namespace millrace {

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

std::optional<GlobalBatch> PipelineSource::next() {
  std::optional<Batch> batch = pipeline_.next();
  if (!batch) return std::nullopt;
  return global_batch(*std::move(batch));
}

}  // namespace millrace
