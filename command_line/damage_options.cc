#include "millrace/command_line/damage_options.h"

#include <string>

#include <fmt/format.h>

#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {

namespace po = boost::program_options;

void add_damage_options(po::options_description& options) {
  // clang-format off
  options.add_options()
      ("damage", po::value<std::string>()->default_value("fail"),
       "damaged records: `fail` stops with an error, `skip` leaves them out and lists them at the end")
      ("max-skipped-records", whole_number<int64_t>(nullptr, {0, limits::kAny}),
       "with --damage skip: most records left out in an epoch")
      ("max-skipped-bytes", whole_number<int64_t>(nullptr, {0, limits::kAny}),
       "with --damage skip: most bytes left out in an epoch")
      ("max-skipped-share", real_number(nullptr, {0, 1}),
       "with --damage skip: largest share of the records left out in an epoch, of 1,000 records at least");
  // clang-format on
}

DamagePolicy damage_policy(const po::variables_map& given) {
  const auto& action = given["damage"].as<std::string>();
  DamagePolicy policy;
  if (action == "skip") {
    policy.action = DamagePolicy::kSkip;
  } else if (action != "fail") {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("--damage is '{}', must be fail or skip", action));
  }
  for (const char* limit : {"max-skipped-records", "max-skipped-bytes", "max-skipped-share"}) {
    if (given.contains(limit) && policy.action == DamagePolicy::kFail) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("--{} has no effect without --damage skip", limit));
    }
  }
  if (given.contains("max-skipped-records")) {
    policy.max_records = given["max-skipped-records"].as<int64_t>();
  }
  if (given.contains("max-skipped-bytes")) {
    policy.max_bytes = given["max-skipped-bytes"].as<int64_t>();
  }
  if (given.contains("max-skipped-share")) {
    policy.max_share = given["max-skipped-share"].as<double>();
  }
  return policy;
}

}  // namespace millrace
