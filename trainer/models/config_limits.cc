#include "millrace/trainer/models/config_limits.h"

#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

void need(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

void check_between(const char* name, int64_t value, int64_t least, int64_t most) {
  need(value >= least, fmt::format("{} is {}; at least {} is needed", name, value, least));
  need(value <= most, fmt::format("{} is {}; at most {} is possible", name, value, most));
}

}  // namespace

void check_size(const char* name, int64_t value, int64_t least) { check_between(name, value, least, kMostSize); }

void check_layers(const char* name, int64_t value) { check_between(name, value, 1, kMostLayers); }

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
