#include "millrace/formats/storage/remote/request_queue.h"

#include <algorithm>

#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kBusyFor{1};

}  // namespace

void RequestQueue::add(uint64_t request, const std::string& url, bool is_small) {
  Host& host = hosts_[origin_of(url) + (is_small ? " small" : "")];
  if (host.limit == 0) {
    host.most = is_small ? limits_.most_small : limits_.most;
    host.limit = std::min(kFirst, host.most);
  }
  requests_[request] = {.host = &host, .is_sent = false};
  host.waiting.push_back(request);
}

std::optional<uint64_t> RequestQueue::take() {
  for (auto& [name, host] : hosts_) {
    while (!host.waiting.empty() && host.in_flight < host.limit) {
      const uint64_t request = host.waiting.front();
      host.waiting.pop_front();
      const auto found = requests_.find(request);
      if (found == requests_.end()) continue;
      found->second.is_sent = true;
      ++host.in_flight;
      return request;
    }
  }
  return std::nullopt;
}

void RequestQueue::note(uint64_t request, int status, std::chrono::nanoseconds now) {
  const auto found = requests_.find(request);
  if (found != requests_.end()) adjust(*found->second.host, status, now);
}

bool RequestQueue::is_busy(uint64_t request, std::chrono::nanoseconds now) const {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return false;
  const std::optional<std::chrono::nanoseconds>& halved_at = found->second.host->halved_at;
  return halved_at && now < *halved_at + kBusyFor;
}

void RequestQueue::remove(uint64_t request, int status, std::chrono::nanoseconds now) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const auto [host, is_sent] = found->second;
  requests_.erase(found);
  if (!is_sent) return;
  --host->in_flight;
  adjust(*host, status, now);
}

void RequestQueue::adjust(Host& host, int status, std::chrono::nanoseconds now) {
  if (status == 429 || status == 503) {
    if (host.halved_at && now < *host.halved_at + kBusyFor) return;
    host.limit = std::max(host.limit / 2, std::min(kLeast, host.most));
    host.halved_at = now;
  } else if (status != 0) {
    host.limit = std::min(host.limit + 1, host.most);
  }
}

}  // namespace millrace
