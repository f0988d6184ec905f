#include "millrace/formats/storage/remote/store_upload.h"

#include <random>

#include <fmt/format.h>

namespace millrace {

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
