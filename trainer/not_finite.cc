#include "trainer/not_finite.h"

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

}  // namespace millrace
