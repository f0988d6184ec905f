#pragma once

#include <cstdint>
#include <limits>

namespace millrace {

// What the fields of models' configs have to be. Each throws `kInvalidArgument` naming the field, its value and the
// limit.

/// Ids and positions are int32, and so is every size that one is an index of.
inline constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max();
/// Far more than anybody trains, and few enough to list.
inline constexpr int64_t kMostLayers = 10'000;

/// `least` <= value <= kMostSize.
void check_size(const char* name, int64_t value, int64_t least = 1);
/// 1 <= value <= kMostLayers.
void check_layers(const char* name, int64_t value);
/// 0 <= value < 1.
void check_probability(const char* name, double value);
/// A finite number above 0.
void check_positive(const char* name, double value);
/// A finite number from 0 on.
void check_not_negative(const char* name, double value);
/// An entry of the vocabulary.
void check_token(const char* name, int64_t id, int64_t vocab_size);

}  // namespace millrace
