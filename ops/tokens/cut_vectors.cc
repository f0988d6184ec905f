#include "millrace/ops/tokens/cut_vectors.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/columnar/column_builder.h"

namespace millrace {
namespace {

void put(const PaddingValue& value, DType dtype, ColumnBuilder& builder, std::byte* at) {
  const auto copy = [at](const auto& converted) { std::memcpy(at, &converted, sizeof converted); };
  switch (dtype) {
    case DType::kInt32: return copy(static_cast<int32_t>(std::get<int64_t>(value)));
    case DType::kInt64: return copy(std::get<int64_t>(value));
    case DType::kFloat32: return copy(static_cast<float>(std::get<double>(value)));
    case DType::kUint8: return copy(static_cast<uint8_t>(std::get<int64_t>(value)));
    case DType::kBytes: return copy(builder.store(std::get<std::string>(value)));
  }
}

}  // namespace

Column cut_vectors(const Block& block, const Column& from, const FeatureSpec& to, std::span<const Kept> kept,
                   const std::optional<PaddingValue>& marker, BufferPool& pool) {
  ColumnBuilder builder(pool, to);
  from.holds().for_each([&builder](const Ref<Resource>& resource) { builder.hold(resource); });
  const size_t size = size_of(to.dtype);
  for (size_t element = 0; element < from.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) {
      builder.append_nothing();
      continue;
    }
    const auto [head, tail] = kept[element];
    const int64_t length = from.num_values(element);
    const bool marks = marker && head + tail < length;
    const int64_t left = head + tail + (marks ? 1 : 0);
    std::byte* at = builder.append_space(left, std::array{left});
    if (left == 0) continue;
    const std::byte* values = from.data(element);
    const auto put_run = [&](const std::byte* run, int64_t count) {
      if (count == 0) return;
      std::memcpy(at, run, static_cast<size_t>(count) * size);
      at += static_cast<size_t>(count) * size;
    };
    put_run(values, head);
    if (marks) {
      put(*marker, to.dtype, builder, at);
      at += size;
    }
    put_run(values + static_cast<size_t>(length - tail) * size, tail);
  }
  return builder.finish();
}

std::vector<int64_t> common_lengths(Block& block, std::span<const size_t> columns, std::string_view operator_name) {
  std::vector<int64_t> lengths(block.num_elements());
  for (size_t element = 0; element < lengths.size(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    lengths[element] = block.column(columns[0]).num_values(element);
    for (const size_t c : columns) {
      const int64_t length = block.column(c).num_values(element);
      if (length == lengths[element]) continue;
      Error error{
          .code = ErrorCode::kWrongShape,
          .message = fmt::format("{}: '{}' has {} values, '{}' {}", operator_name, (*block.schema())[columns[0]].name,
                                 lengths[element], (*block.schema())[c].name, length)};
      block.locate(element, error);
      block.add_error(element, std::make_shared<const Error>(std::move(error)));
      lengths[element] = 0;
      break;
    }
  }
  return lengths;
}

}  // namespace millrace
