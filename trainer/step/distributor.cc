#include "millrace/trainer/step/distributor.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

Distributor::Distributor(int num_replicas) : num_replicas_(num_replicas) {
  if (num_replicas < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} replicas; at least 1 is needed", num_replicas));
  }
}

std::vector<BatchView> Distributor::split(const BatchView& batch) const {
  std::vector<BatchView> views;
  views.reserve(static_cast<size_t>(num_replicas_));
  const int64_t even = batch.rows() / num_replicas_;
  const int64_t larger = batch.rows() % num_replicas_;
  int64_t begin = 0;
  for (int replica = 0; replica < num_replicas_; ++replica) {
    const int64_t rows = even + (replica < larger ? 1 : 0);
    views.push_back(batch.slice(begin, rows));
    begin += rows;
  }
  return views;
}

}  // namespace millrace
