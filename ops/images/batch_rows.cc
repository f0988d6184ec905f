#include "millrace/ops/images/batch_rows.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace millrace {

std::vector<size_t> mixed_columns(const Schema& input, const std::vector<std::string>& features,
                                  std::string_view operator_name) {
  const auto refuse = [operator_name](const std::string& why) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", operator_name, why));
  };
  std::vector<size_t> columns;
  for (const std::string& name : features) {
    const auto column = static_cast<size_t>(input.column(name));
    const FeatureSpec& feature = input[column];
    if (feature.dtype != DType::kFloat32 || feature.shape.empty() || feature.is_ragged()) {
      refuse(
          fmt::format("feature '{}' is {} {}; what is mixed is float32 [rows, ...]: cast it, make labels one-hot, "
                      "and put it after batch",
                      name, to_string(feature.dtype), to_string(feature.shape)));
    }
    if (std::count(columns.begin(), columns.end(), column) > 0) refuse(fmt::format("'{}' is named twice", name));
    columns.push_back(column);
  }
  return columns;
}

void check_mixing(double alpha, double probability, std::string_view operator_name) {
  const auto refuse = [operator_name](const std::string& why) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", operator_name, why));
  };
  if (!(alpha > 0) || !std::isfinite(alpha)) refuse(fmt::format("alpha is {}, must be above 0", alpha));
  if (!(probability >= 0 && probability <= 1)) {
    refuse(fmt::format("probability is {}, must be between 0 and 1", probability));
  }
}

void expect_batches(Block& block, std::span<const size_t> columns, std::string_view operator_name) {
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    for (const size_t c : columns) {
      if (block.column(c).size(element, 0) == block.rows_per_element) continue;
      block.add_error(
          element, std::make_shared<const Error>(Error{
                       .code = ErrorCode::kWrongShape,
                       .message = fmt::format("{}: '{}' has shape {}, and the element {} rows; it stands after batch",
                                              operator_name, (*block.schema())[c].name,
                                              to_string(block.column(c).shape(element)), block.rows_per_element)}));
      break;
    }
  }
}

void mix_rows(std::span<const float> from, std::span<const size_t> partners, float lambda, std::span<float> to) {
  if (partners.empty()) {
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  const size_t length = from.size() / partners.size();
  const float rest = 1 - lambda;
  for (size_t row = 0; row < partners.size(); ++row) {
    const float* own = from.data() + row * length;
    const float* other = from.data() + partners[row] * length;
    float* mixed = to.data() + row * length;
    for (size_t i = 0; i < length; ++i) mixed[i] = lambda * own[i] + rest * other[i];
  }
}

}  // namespace millrace
