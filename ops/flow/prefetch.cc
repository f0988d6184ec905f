#include "millrace/ops/flow/prefetch.h"

#include <fmt/format.h>

namespace millrace {

PrefetchOperator::PrefetchOperator(SchemaPtr input, int64_t buffer_size)
    : StageOperator(std::move(input)), buffer_size_(buffer_size == -1 ? 0 : buffer_size) {
  if (buffer_size_ < 0 || buffer_size_ > kMaxBufferSize) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("prefetch: buffer_size is {}, must be between 0 and {} blocks", buffer_size, kMaxBufferSize));
  }
}

std::unique_ptr<Stage> PrefetchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return inputs[0](context);
}

}  // namespace millrace
