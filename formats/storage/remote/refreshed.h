#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/storage/remote/http_engine.h"

namespace millrace {

/// Something that requests need and that ends: credentials, an access token. It is asked for when it is first needed,
/// and again five minutes before it ends, while the old one goes on being used. Nobody waits unless there is none that
/// is valid; all who wait get the same one. Any thread.
template <typename Value>
class Refreshed : public std::enable_shared_from_this<Refreshed<Value>> {
 public:
  struct Fetched {
    std::shared_ptr<const Value> value = nullptr;                    ///< null: none, see `error`
    std::optional<std::chrono::system_clock::time_point> ends = {};  ///< none: it stays valid
    std::string error = {};                                          ///< why there is none; never a secret
  };
  /// Asks for a new one, and calls the function that it is given once, from any thread, at once or later. Must not
  /// throw.
  using Fetch = std::function<void(std::function<void(Fetched)>)>;

  static constexpr std::chrono::minutes kBeforeEnd{5};
  /// After a renewal that failed, or brought one that ends soon too, while the old one is still valid.
  static constexpr std::chrono::seconds kUntilNextTry{30};

  /// `engine`: whose clock it goes by.
  Refreshed(std::shared_ptr<HttpEngine> engine, Fetch fetch) : engine_(std::move(engine)), fetch_(std::move(fetch)) {}

  /// `got` is called once: at once where a valid one is known, else when it has come or failed to.
  void get(const std::function<void(const Fetched&)>& got) {
    std::optional<Fetched> known;
    bool is_due = true;
    {
      const std::lock_guard lock(mutex_);
      const auto now = engine_->wall_now();
      if (known_.value != nullptr && (!known_.ends || now < *known_.ends)) {
        known = known_;
        is_due = known_.ends && now >= *known_.ends - kBeforeEnd && engine_->now() >= next_try_;
      } else {
        waiting_.push_back(got);
      }
      is_due = is_due && !std::exchange(is_fetching_, is_fetching_ || is_due);
    }
    if (is_due) {
      fetch_([self = this->shared_from_this()](Fetched fetched) { self->take(std::move(fetched)); });
    }
    if (known) got(*known);
  }

  /// A server has refused this one: it is asked for anew.
  void discard(const std::shared_ptr<const Value>& refused) {
    const std::lock_guard lock(mutex_);
    if (known_.value == refused) known_ = {};
  }

 private:
  void take(Fetched fetched) {
    std::vector<std::function<void(const Fetched&)>> waiting;
    {
      const std::lock_guard lock(mutex_);
      is_fetching_ = false;
      next_try_ = engine_->now() + kUntilNextTry;
      if (fetched.value != nullptr) known_ = fetched;
      waiting.swap(waiting_);
    }
    for (const auto& got : waiting) got(fetched);
  }

  const std::shared_ptr<HttpEngine> engine_;
  const Fetch fetch_;
  std::mutex mutex_;
  Fetched known_;
  std::chrono::nanoseconds next_try_{0};  // of the engine's clock; before it nothing valid is renewed
  bool is_fetching_ = false;
  std::vector<std::function<void(const Fetched&)>> waiting_;
};

}  // namespace millrace
