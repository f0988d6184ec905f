#include "millrace/formats/records/damage_policy.h"

#include <vector>

#include <fmt/format.h>

namespace millrace {

bool is_damage(ErrorCode code) {
  switch (code) {
    case ErrorCode::kLengthCrc:
    case ErrorCode::kPayloadCrc:
    case ErrorCode::kTruncated:
    case ErrorCode::kRecordTooLarge:
    case ErrorCode::kCompression:
    case ErrorCode::kParse: return true;
    default: return false;
  }
}

void DamagePolicy::check() const {
  const auto refuse = [](const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); };
  const auto at_least_0 = [&](const char* name, const std::optional<int64_t>& value) {
    if (value && *value < 0) refuse(fmt::format("damage: {} is {}, must be at least 0", name, *value));
  };
  at_least_0("max_records", max_records);
  at_least_0("max_bytes", max_bytes);
  if (max_share && !(*max_share >= 0 && *max_share <= 1)) {
    refuse(fmt::format("damage: max_share is {}, must be from 0 to 1", *max_share));
  }
  if (action == kFail && has_budget()) {
    refuse("damage: a budget is without effect when damage is an error (action = kFail)");
  }
}

}  // namespace millrace
