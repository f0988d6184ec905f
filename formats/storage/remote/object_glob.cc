#include "millrace/formats/storage/remote/object_glob.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/key_pattern.h"
#include "millrace/formats/storage/remote/object_list.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/store_request.h"

namespace millrace {
namespace {

constexpr size_t kMostInFlight = 16;
// Where there are at least so many keys for each name of the first level, their folders are listed alone.
constexpr size_t kManyKeys = 100;

class Glob {
 public:
  Glob(const HttpCalls& calls, BucketStore& store, const std::string& pattern, ListedObjects& known,
       const GlobProgress& progress)
      : calls_(calls),
        store_(store),
        pattern_(pattern),
        url_(parse_object_url(pattern)),
        wanted_(url_.key),
        known_(known),
        progress_(progress) {
    if (url_.key.empty() || url_.key.ends_with('/')) {
      const std::string folder = url_.key.empty() ? fmt::format("{}://{}/", url_.scheme, url_.bucket) : pattern;
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("'{}' is a folder; for the objects in it give '{}*'", pattern, folder));
    }
  }
  ~Glob() {
    for (const auto& weak : calls_in_flight_) {
      if (const auto call = weak.lock()) call->cancel();
    }
  }
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;

  std::vector<std::string> run() {
    const size_t special = url_.key.find_first_of(KeyPattern::kSpecial);
    if (special == std::string::npos) return find_one();
    if (url_.key.find('/', special) == std::string::npos) {
      walk_folders();
    } else {
      waiting_.push_back({.prefix = url_.key.substr(0, special)});
    }
    while (!waiting_.empty() || in_flight_ > 0) {
      while (!waiting_.empty() && in_flight_ < kMostInFlight) {
        ask(std::move(waiting_.front()));
        waiting_.pop_front();
      }
      take(next());
    }
    if (is_key_) return {pattern_};
    std::ranges::sort(found_);
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  // A listing, page by page.
  struct Walk {
    std::string prefix = {};
    bool by_folder = false;
    std::string folder = {};  // by_folder: of the names
    size_t level = 0;         // by_folder: of `parts_`
    std::string page = {};
    int most = 1000;
    std::shared_ptr<std::set<std::string>> pages = std::make_shared<std::set<std::string>>();  // seen
  };
  struct Page {
    Walk walk;
    ListAnswer answer;
  };
  // Outlives whoever does not wait for the last answers.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Page> pages;
  };

  void ask(Walk walk) {
    const ListRequest request{.bucket = url_.bucket,
                              .prefix = walk.prefix,
                              .by_folder = walk.by_folder,
                              .page = walk.page,
                              .most = walk.most};
    const auto done = [inbox = inbox_, walk = std::move(walk)](ListAnswer answer) {
      const std::lock_guard lock(inbox->mutex);
      inbox->pages.push_back({.walk = walk, .answer = std::move(answer)});
      inbox->changed.notify_one();
    };
    std::erase_if(calls_in_flight_, [](const auto& call) { return call.expired(); });
    calls_in_flight_.push_back(list_page(calls_, store_, request, done));
    ++in_flight_;
  }

  Page next() {
    std::unique_lock lock(inbox_->mutex);
    inbox_->changed.wait(lock, [this] { return !inbox_->pages.empty(); });
    Page page = std::move(inbox_->pages.front());
    inbox_->pages.pop_front();
    --in_flight_;
    return page;
  }

  [[noreturn]] void fail(Error error) const {
    error.shard = pattern_;
    throw ErrorException(std::move(error));
  }

  ListedPage read(Page& page) {
    if (page.answer.error) fail(std::move(page.answer.error->error));
    ListedPage listed;
    try {
      listed = store_.parse_page(page.answer.body);
    } catch (const ErrorException& exception) {
      const std::string& why = exception.error().message;
      fail({.message = "cannot list it: " + unreadable_answer(*page.answer.call, why, page.answer.body)});
    }
    if (!listed.next.empty() && !page.walk.pages->insert(listed.next).second) {
      fail({.message = "cannot list it: its pages lead in a circle" + page.answer.call->asked()});
    }
    num_keys_ += listed.objects.size();
    if (progress_) progress_(num_keys_);
    return listed;
  }

  // A key without wildcards comes first of those that begin with it.
  std::vector<std::string> find_one() {
    ask({.prefix = url_.key, .most = 1});
    Page page = next();
    if (page.answer.error && (page.answer.status == 401 || page.answer.status == 403)) return {pattern_};
    for (const ListedObject& object : read(page).objects) add(object);
    return std::move(found_);
  }

  // Folders of one level after the other, from the first whose name has wildcards.
  void walk_folders() { walk_on("", 0); }
  void walk_on(std::string folder, size_t level) {
    for (; level + 1 < parts_.size() && parts_[level].find_first_of(KeyPattern::kSpecial) == std::string::npos;
         ++level) {
      folder += parts_[level] + '/';
    }
    const std::string prefix = folder + parts_[level].substr(0, parts_[level].find_first_of(KeyPattern::kSpecial));
    waiting_.push_back({.prefix = prefix, .by_folder = true, .folder = std::move(folder), .level = level});
  }

  void take(Page page) {
    ListedPage listed = read(page);
    const Walk& walk = page.walk;
    if (!walk.by_folder && walk.page.empty() && !listed.next.empty() && has_many_keys(listed, walk.prefix)) {
      return walk_folders();
    }
    for (const ListedObject& object : listed.objects) add(object);
    for (std::string& folder : listed.folders) {
      if (walk.level + 1 == parts_.size()) {
        add_folder_of(folder);
      } else if (is_to_be_walked(folder, walk)) {
        walk_on(std::move(folder), walk.level + 1);
      }
    }
    if (listed.next.empty()) return;
    page.walk.page = std::move(listed.next);
    waiting_.push_front(std::move(page.walk));
  }

  static bool has_many_keys(const ListedPage& page, const std::string& prefix) {
    std::set<std::string_view> names;
    for (const ListedObject& object : page.objects) {
      const std::string_view key = object.key;
      names.insert(key.substr(0, key.find('/', prefix.size())));
    }
    return page.objects.size() >= kManyKeys * names.size();
  }

  bool is_to_be_walked(const std::string& folder, const Walk& walk) const {
    if (!folder.starts_with(walk.folder) || folder.size() <= walk.folder.size()) return false;
    const std::string name = folder.substr(walk.folder.size(), folder.size() - walk.folder.size() - 1);
    const std::string& part = parts_[walk.level];
    return KeyPattern::matches_name(part, name) || part == name;  // the latter may lead to a key that is the pattern
  }

  void add(const ListedObject& object) {
    if (object.key == url_.key) {
      is_key_ = true;
    } else if (!wanted_.matches(object.key)) {
      return add_folder_of(object.key);
    }
    found_.push_back(url_of(object.key));
    known_.put(listed_name(store_, found_.back()), object.version);
  }

  // Of a key that lies deeper than what the pattern matches.
  void add_folder_of(const std::string& key) {
    const std::string_view folder = wanted_.matching_folder(key);
    if (folder.empty()) return;
    std::string url = url_of(folder);
    if (found_.empty() || found_.back() != url) found_.push_back(std::move(url));  // one of many keys in it
  }

  std::string url_of(std::string_view key) const {
    return ObjectUrl{.scheme = url_.scheme, .bucket = url_.bucket, .key = std::string(key)}.to_string();
  }

  const HttpCalls& calls_;
  BucketStore& store_;
  const std::string& pattern_;
  const ObjectUrl url_;
  const KeyPattern wanted_;  // of the keys
  const std::vector<std::string>& parts_ = wanted_.parts();
  ListedObjects& known_;
  const GlobProgress& progress_;

  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::deque<Walk> waiting_;
  std::vector<std::weak_ptr<RetriedCall>> calls_in_flight_;
  size_t in_flight_ = 0;
  size_t num_keys_ = 0;
  bool is_key_ = false;  // the pattern is one
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> glob_bucket(const HttpCalls& calls, BucketStore& store, const std::string& pattern,
                                     ListedObjects& known, const GlobProgress& progress) {
  return Glob(calls, store, pattern, known, progress).run();
}

std::string listed_name(const BucketStore& store, const std::string& url) { return store.name() + ' ' + url; }

}  // namespace millrace
