#include "trainer/parameters.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {
namespace {

constexpr int64_t kFloatsPerLine = 16;  // 64 bytes

int64_t round_up(int64_t floats) { return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine; }

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kInvalidArgument, std::move(message)); }

}  // namespace

int ParameterLayout::add(std::string name, std::vector<int64_t> shape) {
  if (finished_) refuse(fmt::format("parameter '{}' was added after the layout was finished", name));
  if (name.empty()) refuse("a parameter needs a name");
  int64_t size = 1;
  for (int64_t dimension : shape) {
    if (dimension < 1)
      refuse(fmt::format("parameter '{}' has a dimension of {}; at least 1 is needed", name, dimension));
    size *= dimension;
  }
  const int id = static_cast<int>(parameters_.size());
  if (!ids_.emplace(name, id).second) refuse(fmt::format("two parameters are named '{}'", name));
  parameters_.push_back({.name = std::move(name), .shape = std::move(shape), .offset = 0, .size = size});
  return id;
}

void ParameterLayout::add_second_name(int id, std::string name) {
  if (finished_) refuse(fmt::format("name '{}' was added after the layout was finished", name));
  if (name.empty()) refuse("a parameter needs a name");
  if (!ids_.emplace(name, id).second) refuse(fmt::format("two parameters are named '{}'", name));
  parameters_.at(static_cast<size_t>(id)).second_name = std::move(name);
}

void ParameterLayout::finish(int64_t bucket_bytes) {
  if (finished_) refuse("the layout is finished already");
  const int64_t limit = bucket_bytes / static_cast<int64_t>(sizeof(float)) / kFloatsPerLine * kFloatsPerLine;
  if (limit < kFloatsPerLine) refuse(fmt::format("bucket_bytes is {}; at least 64 are needed", bucket_bytes));
  finished_ = true;
  for (int id = static_cast<int>(parameters_.size()) - 1; id >= 0; --id) {
    Parameter& parameter = parameters_[static_cast<size_t>(id)];
    parameter.offset = size_;
    int64_t left = round_up(parameter.size);
    while (left > 0) {
      // A parameter that fits into a bucket is not torn apart only because the open one is nearly full.
      const bool open =
          !buckets_.empty() && buckets_.back().end - buckets_.back().begin + std::min(left, limit) <= limit;
      if (!open) buckets_.push_back({.begin = size_, .end = size_, .parameters = {}});
      Bucket& bucket = buckets_.back();
      const int64_t part = std::min(left, limit);
      bucket.end += part;
      bucket.parameters.push_back(id);
      size_ += part;
      left -= part;
    }
  }
}

int64_t ParameterLayout::num_elements() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.size;
  return count;
}

std::optional<int> ParameterLayout::find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

FlatBuffer::FlatBuffer(int64_t size) : size_(size) {
  const size_t bytes = static_cast<size_t>(round_up(std::max<int64_t>(size, 1))) * sizeof(float);
  auto* data = static_cast<float*>(std::aligned_alloc(64, bytes));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, bytes);
  data_.reset(data);
}

void FlatBuffer::Free::operator()(float* data) const { std::free(data); }

}  // namespace millrace
