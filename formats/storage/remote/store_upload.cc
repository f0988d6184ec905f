#include "millrace/formats/storage/remote/store_upload.h"

#include <random>

#include <fmt/format.h>

namespace millrace {

std::string refused_condition(const OutputOptions& options) {
  if (options.if_version.empty()) return options.if_absent ? "there is such an object already: " : "";
  if (!options.if_absent) return "there is another object than the one to be replaced: ";
  throw ErrorException(ErrorCode::kInvalidArgument, "if_absent and if_version cannot both hold");
}

ErrorException upload_error(const std::string& url, std::string_view why) {
  return ErrorException({.code = ErrorCode::kIo, .message = fmt::format("cannot write it: {}", why), .shard = url});
}

std::string make_upload_mark() {
  std::random_device random;
  std::string mark;
  for (int i = 0; i < 4; ++i) mark += fmt::format("{:08x}", random());
  return mark;
}

}  // namespace millrace
