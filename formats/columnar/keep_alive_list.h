#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// Resources that a column keeps alive. The first has its place in the object: most columns hold one buffer. The others
/// are in a list that copies share, so that a copy counts two references and not one of each: rows that come from 16
/// shards in turn are cut and passed on several times.
class KeepAliveList {
 public:
  /// The same resource as the last one counts once.
  void add(const Ref<Resource>& resource) {
    if (!first_) {
      first_ = resource;
    } else if (!(resource == last())) {
      own_list().push_back(resource);
    }
  }
  /// Adds unless it is there already.
  void add_once(const Ref<Resource>& resource) {
    if (!contains(resource)) add(resource);
  }
  bool contains(const Ref<Resource>& resource) const {
    if (first_ == resource) return true;
    return more_ && std::find(more_->list.begin(), more_->list.end(), resource) != more_->list.end();
  }
  bool empty() const { return !first_; }
  /// Whether nobody else has a reference to any of them.
  bool are_only_here() const {
    bool only_here = !more_ || more_.is_only_one();
    for_each([&only_here](const Ref<Resource>& resource) { only_here = only_here && resource.is_only_one(); });
    return only_here;
  }
  template <typename Function>
  void for_each(Function&& function) const {
    if (first_) function(first_);
    if (!more_) return;
    for (const auto& held : more_->list) function(held);
  }

 private:
  struct More final : Resource {
    std::vector<Ref<Resource>> list;
    void release() noexcept override { delete this; }
  };

  const Ref<Resource>& last() const { return more_ ? more_->list.back() : first_; }
  // The list, which no other object shares.
  std::vector<Ref<Resource>>& own_list() {
    if (!more_ || !more_.is_only_one()) {
      const Ref<More> own(new More);
      constexpr size_t kLikely = 16;
      own->list.reserve(kLikely);
      if (more_) own->list.insert(own->list.end(), more_->list.begin(), more_->list.end());
      more_ = own;
    }
    return more_->list;
  }

  Ref<Resource> first_;
  Ref<More> more_;  // null, or not empty
};

}  // namespace millrace
