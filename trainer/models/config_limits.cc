#include "trainer/models/config_limits.h"

#include <cmath>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {
namespace {

void need(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

}  // namespace

void check_at_least(const char* name, int64_t value, int64_t least) {
  need(value >= least, fmt::format("{} is {}; at least {} is needed", name, value, least));
}

void check_probability(const char* name, double value) {
  need(value >= 0 && value < 1, fmt::format("{} is {}; 0 <= {} < 1 is needed", name, value, name));
}

void check_positive(const char* name, double value) {
  need(value > 0 && std::isfinite(value), fmt::format("{} is {}; more than 0 is needed", name, value));
}

void check_not_negative(const char* name, double value) {
  need(value >= 0 && std::isfinite(value), fmt::format("{} is {}; a number from 0 on is needed", name, value));
}

void check_token(const char* name, int64_t id, int64_t vocab_size) {
  need(id >= 0 && id < vocab_size, fmt::format("{} is {}; the vocabulary has {} entries", name, id, vocab_size));
}

}  // namespace millrace
