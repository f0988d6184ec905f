#pragma once

#include <cstdint>

namespace millrace {

// What the fields of models' configs have to be. Each throws `kInvalidArgument` naming the field, its value and the
// limit.

void check_at_least(const char* name, int64_t value, int64_t least);
/// 0 <= value < 1.
void check_probability(const char* name, double value);
/// A finite number above 0.
void check_positive(const char* name, double value);
/// A finite number from 0 on.
void check_not_negative(const char* name, double value);
/// An entry of the vocabulary.
void check_token(const char* name, int64_t id, int64_t vocab_size);

}  // namespace millrace
