#include "millrace/ops/written_features.h"

#include <fmt/format.h>

namespace millrace {

WrittenFeatures::WrittenFeatures(std::string_view operator_name, const Schema& input, std::vector<FeatureSpec> writes,
                                 bool keep_others)
    : written_(std::make_shared<const Schema>(std::move(writes))) {
  for (const FeatureSpec& feature : written_->features()) {
    if (!feature.is_ragged()) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: a row function cannot write the ragged feature '{}' {}; write vectors and "
                                     "use ragged_batch, or a block function",
                                     operator_name, feature.name, to_string(feature.shape)));
  }
  std::vector<FeatureSpec> features;
  if (keep_others) {
    for (const FeatureSpec& feature : input.features()) {
      const int replacement = written_->find(feature.name);
      features.push_back(replacement < 0 ? feature : (*written_)[static_cast<size_t>(replacement)]);
    }
  }
  for (const FeatureSpec& feature : written_->features()) {
    if (!keep_others || input.find(feature.name) < 0) features.push_back(feature);
  }
  for (const FeatureSpec& feature : features) {
    new_one_.push_back(written_->find(feature.name));
    kept_.push_back(new_one_.back() < 0 ? input.find(feature.name) : -1);
  }
  schema_ = std::make_shared<const Schema>(std::move(features));
}

Block WrittenFeatures::merged(const Block& block, const Block& written) const {
  Block::Columns columns;
  columns.reserve(kept_.size());
  for (size_t c = 0; c < kept_.size(); ++c) {
    columns.push_back(kept_[c] >= 0 ? block.column(static_cast<size_t>(kept_[c]))
                                    : written.column(static_cast<size_t>(new_one_[c])));
  }
  Block merged = block.with_columns(schema_, std::move(columns));
  for (const ElementError& entry : written.errors()) merged.add_error(entry.element, entry.error);
  return merged;
}

}  // namespace millrace
