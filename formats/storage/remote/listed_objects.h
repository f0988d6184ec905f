#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "millrace/formats/storage/remote/object_version.h"

namespace millrace {

/// Versions of objects that listings have named, so that opening one asks nothing. The last ones, at most so many. Any
/// thread.
class ListedObjects {
 public:
  static constexpr size_t kMost = 100'000;

  explicit ListedObjects(size_t most = kMost) : most_(most) {}
  /// One for the process: shards are often listed by another storage than reads them.
  static const std::shared_ptr<ListedObjects>& of_process();

  /// `object`: its store and URL. A version without a tag or generation, which says too little, is not kept.
  void put(const std::string& object, const ObjectVersion& version);
  [[nodiscard]] std::optional<ObjectVersion> find(const std::string& object) const;
  /// It is another one now.
  void forget(const std::string& object);
  [[nodiscard]] size_t size() const;

 private:
  using Entries = std::list<std::pair<std::string, ObjectVersion>>;

  void erase(const std::string& object);

  const size_t most_;
  mutable std::mutex mutex_;
  Entries entries_;                                                 // in the order of their coming
  std::unordered_map<std::string_view, Entries::iterator> places_;  // by names in `entries_`
};

}  // namespace millrace
