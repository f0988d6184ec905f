#include "millrace/trainer/not_finite.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace millrace {

std::optional<PlacedValue> first_not_finite(std::span<const std::byte> floats) {
  constexpr uint32_t kExponent = 0x7F800000;
  std::array<uint32_t, 1024> block;
  const size_t size = floats.size() / sizeof(float);
  for (size_t begin = 0; begin < size; begin += block.size()) {
    const size_t count = std::min(block.size(), size - begin);
    std::memcpy(block.data(), floats.data() + begin * sizeof(float), count * sizeof(float));
    bool found = false;  // without a way out of the loop it runs in vectors
    for (size_t i = 0; i < count; ++i) found |= (block[i] & kExponent) == kExponent;
    if (!found) continue;
    const auto* first = std::find_if(block.begin(), block.begin() + count,
                                     [](uint32_t bits) { return (bits & kExponent) == kExponent; });
    return PlacedValue{.position = begin + static_cast<size_t>(first - block.begin()),
                       .value = std::bit_cast<float>(*first)};
  }
  return std::nullopt;
}

const Parameter* parameter_not_finite(const ParameterLayout& layout, const FlatBuffer& buffer,
                                      std::span<const uint8_t> included) {
  for (size_t id = 0; id < layout.parameters().size(); ++id) {
    if (!included.empty() && included[id] == 0) continue;
    const Parameter& parameter = layout.parameters()[id];
    const std::span<const float> values =
        buffer.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    if (first_not_finite(std::as_bytes(values))) return &parameter;
  }
  return nullptr;
}

}  // namespace millrace
