#include "millrace/trainer/parameters.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr int64_t kFloatsPerLine = 16;  // 64 bytes
// 512 GiB: what cannot be a model is refused before anything is made of its size.
constexpr int64_t kMostFloats = int64_t{1} << 37U;

int64_t round_up(int64_t floats) { return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine; }

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kInvalidArgument, std::move(message)); }

}  // namespace

int ParameterLayout::add(std::string name, std::vector<int64_t> shape, int loss) {
  if (finished_) refuse(fmt::format("parameter '{}' was added after the layout was finished", name));
  if (name.empty()) refuse("a parameter needs a name");
  if (loss < 0) refuse(fmt::format("parameter '{}' follows loss {}; they count from 0", name, loss));
  int64_t size = 1;
  for (int64_t dimension : shape) {
    if (dimension < 1)
      refuse(fmt::format("parameter '{}' has a dimension of {}; at least 1 is needed", name, dimension));
    size = dimension <= kMostFloats / size ? size * dimension : kMostFloats + 1;
    if (size > kMostFloats) break;
  }
  if (size > kMostFloats || round_up(size) > kMostFloats - size_) {
    refuse(fmt::format("parameter '{}' [{}] would make a model of more than {} floats", name, fmt::join(shape, ","),
                       kMostFloats));
  }
  const int id = static_cast<int>(parameters_.size());
  if (!ids_.emplace(name, id).second) refuse(fmt::format("two parameters are named '{}'", name));
  size_ += round_up(size);
  num_losses_ = std::max(num_losses_, loss + 1);
  parameters_.push_back({.name = std::move(name), .shape = std::move(shape), .loss = loss, .size = size});
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
  bucket_limit_ = limit;
  int64_t offset = 0;
  for (int id = static_cast<int>(parameters_.size()) - 1; id >= 0; --id) {
    Parameter& parameter = parameters_[static_cast<size_t>(id)];
    parameter.offset = offset;
    offset += round_up(parameter.size);
  }
  buckets_ = buckets_of([](int) { return true; });
}

std::vector<Bucket> ParameterLayout::buckets_of(const std::function<bool(int id)>& included) const {
  std::vector<Bucket> buckets;
  for (int id = static_cast<int>(parameters_.size()) - 1; id >= 0; --id) {
    if (!included(id)) continue;
    const Parameter& parameter = parameters_[static_cast<size_t>(id)];
    int64_t begin = parameter.offset;
    for (int64_t left = round_up(parameter.size); left > 0;) {
      // A parameter that fits into a bucket is not torn apart only because the open one is nearly full.
      const bool open = !buckets.empty() && buckets.back().end == begin && buckets.back().loss == parameter.loss &&
                        buckets.back().end - buckets.back().begin + std::min(left, bucket_limit_) <= bucket_limit_;
      if (!open) buckets.push_back({.begin = begin, .end = begin, .parameters = {}, .loss = parameter.loss});
      Bucket& bucket = buckets.back();
      const int64_t part = std::min(left, bucket_limit_);
      bucket.end += part;
      bucket.parameters.push_back(id);
      begin += part;
      left -= part;
    }
  }
  return buckets;
}

int64_t ParameterLayout::size() const {
  if (!finished_)
    refuse("the model's layout is not finished: the model's constructor must call ParameterLayout::finish");
  return size_;
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

template <typename T>
FlatValues<T>::FlatValues(int64_t size) : size_(size) {
  constexpr size_t kBoundary = kFloatsPerLine * sizeof(float);
  // calloc gives large blocks as pages that come into being, as zeros, when they are touched.
  size_t space = static_cast<size_t>(round_up(std::max<int64_t>(size, 1))) * sizeof(T) + kBoundary;
  memory_.reset(std::calloc(space, 1));
  if (memory_ == nullptr) throw std::bad_alloc();
  void* first = memory_.get();
  data_ = static_cast<T*>(std::align(kBoundary, kBoundary, first, space));
}

template <typename T>
FlatValues<T>::FlatValues(FlatValues&& other) noexcept
    : memory_(std::move(other.memory_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

template <typename T>
FlatValues<T>& FlatValues<T>::operator=(FlatValues&& other) noexcept {
  memory_ = std::move(other.memory_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

template <typename T>
void FlatValues<T>::Free::operator()(void* memory) const {
  std::free(memory);
}

template class FlatValues<float>;
template class FlatValues<double>;

}  // namespace millrace
