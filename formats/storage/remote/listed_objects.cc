#include "millrace/formats/storage/remote/listed_objects.h"

namespace millrace {

const std::shared_ptr<ListedObjects>& ListedObjects::of_process() {
  static const auto objects = std::make_shared<ListedObjects>();
  return objects;
}

void ListedObjects::put(const std::string& object, const ObjectVersion& version) {
  const std::lock_guard lock(mutex_);
  erase(object);
  if (version.tag.empty() && version.generation.empty()) return;
  entries_.emplace_back(object, version);
  places_[entries_.back().first] = std::prev(entries_.end());
  if (entries_.size() > most_) erase(std::string(entries_.front().first));
}

std::optional<ObjectVersion> ListedObjects::find(const std::string& object) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(object);
  if (found == places_.end()) return std::nullopt;
  return found->second->second;
}

void ListedObjects::forget(const std::string& object) {
  const std::lock_guard lock(mutex_);
  erase(object);
}

size_t ListedObjects::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void ListedObjects::erase(const std::string& object) {
  const auto found = places_.find(object);
  if (found == places_.end()) return;
  const Entries::iterator entry = found->second;
  places_.erase(found);  // before its name goes
  entries_.erase(entry);
}

}  // namespace millrace
