#include "millrace/trainer/step/distributor.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

Distributor::Distributor(int num_replicas) : num_replicas_(num_replicas) {
  if (num_replicas < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} replicas; at least 1 is needed", num_replicas));
  }
}

std::vector<int64_t> Distributor::sizes(int64_t rows) const {
  std::vector<int64_t> sizes(static_cast<size_t>(num_replicas_), rows / num_replicas_);
  for (size_t replica = 0; replica < static_cast<size_t>(rows % num_replicas_); ++replica) ++sizes[replica];
  return sizes;
}

std::vector<BatchView> Distributor::split(const BatchView& batch) const {
  std::vector<BatchView> views;
  views.reserve(static_cast<size_t>(num_replicas_));
  int64_t begin = 0;
  for (const int64_t rows : sizes(batch.rows())) {
    views.push_back(batch.slice(begin, rows));
    begin += rows;
  }
  return views;
}

}  // namespace millrace
