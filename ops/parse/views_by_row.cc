#include "millrace/ops/parse/views_by_row.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// Of smaller ones the search costs more than it saves.
constexpr size_t kLargeBuffer = size_t{1} << 20;

}  // namespace

ViewsByRow::ViewsByRow(Column&& column, size_t rows) {
  const Column taken = std::move(column);
  views_.resize(rows * taken.num_elements());
  for (size_t element = 0; element < taken.num_elements(); ++element) {
    const auto views = taken.values<std::string_view>(element);
    if (views.size() == rows) std::ranges::copy(views, views_.begin() + static_cast<std::ptrdiff_t>(element * rows));
  }
  taken.holds().for_each([this](const Ref<Resource>& resource) {
    size_t end = views_.size();
    const auto* buffer = dynamic_cast<const BufferBody*>(resource.get());
    if (buffer != nullptr && buffer->capacity() >= kLargeBuffer) {
      const auto* begin = reinterpret_cast<const char*>(buffer->data());
      const auto points_there = [&](std::string_view view) {
        return view.data() >= begin && view.data() < begin + buffer->capacity();
      };
      while (end > 0 && !points_there(views_[end - 1])) --end;
    }
    if (end > 0) held_.push_back({resource, end - 1});
  });
  std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.last_row > b.last_row; });
}

void ViewsByRow::done(size_t row) {
  while (!held_.empty() && held_.back().last_row <= row) held_.pop_back();
}

}  // namespace millrace
