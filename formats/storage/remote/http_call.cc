#include "millrace/formats/storage/remote/http_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

using std::chrono::nanoseconds;

// Of libcurl, for each call in flight.
constexpr long kBufferBytes = 64 << 10;
constexpr long kSmallBufferBytes = 16 << 10;

// Without the certificates that are needed no attempt would do better, nor where the server speaks no TLS.
HttpFailure failure_of(CURLcode code, std::string_view text) {
  switch (code) {
    case CURLE_SSL_CONNECT_ERROR:
      for (const char* passing : {"alert", "unexpected eof"}) {  // the server's trouble, or the connection's
        if (text.find(passing) != std::string_view::npos) return HttpFailure::kTransport;
      }
      return text.find("error:") == std::string_view::npos ? HttpFailure::kTransport : HttpFailure::kRefused;
    case CURLE_OPERATION_TIMEDOUT: return HttpFailure::kTimeout;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT: return HttpFailure::kRefused;
    default: return HttpFailure::kTransport;
  }
}

// As libcurl says it, without the URL of a proxy that it does not understand, which may have a password.
std::string without_proxy_url(std::string text) {
  const size_t begin = text.find('\'');
  if (text.starts_with("Unsupported proxy") && begin != std::string::npos) text.replace(begin, text.npos, "its URL");
  return text;
}

// With which a proxy has refused a connection; 0: none has.
int proxy_refusal(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
  return status >= 400 ? static_cast<int>(status) : 0;
}

}  // namespace

HttpCall::HttpCall(uint64_t number, HttpRequest request, std::shared_ptr<HttpSink> sink, nanoseconds now)
    : number_(number), request_(std::move(request)), sink_(std::move(sink)), made_at_(now) {}

HttpCall::~HttpCall() = default;

template <typename Value>
void HttpCall::set(CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code != CURLE_OK) {
    throw ErrorException(ErrorCode::kIo, fmt::format("libcurl does not take option {}: {}", static_cast<int>(option),
                                                     curl_easy_strerror(code)));
  }
}

void HttpCall::set_up(const std::string& ca_file, nanoseconds now) {
  easy_.reset(curl_easy_init());
  if (!easy_) throw std::bad_alloc();
  begun_at_ = moved_at_ = now;
  response_.waited = now - made_at_;
  set(CURLOPT_PRIVATE, this);
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PATH_AS_IS, 1L);  // keys of objects may have `..`
  set(CURLOPT_QUICK_EXIT, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's answer is not the server's
  set(CURLOPT_BUFFERSIZE, request_.is_small ? kSmallBufferBytes : kBufferBytes);
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_HEADERFUNCTION, &HttpCall::take_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &HttpCall::take_body);
  set(CURLOPT_WRITEDATA, this);
  if (request_.without_proxy) set(CURLOPT_NOPROXY, "*");
  if (!ca_file.empty()) {  // in place of all that the system has
    set(CURLOPT_CAINFO, ca_file.c_str());
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  set_method();
  for (const auto& [name, value] : request_.headers.fields()) {
    // A field without a value ends in a semicolon for libcurl.
    add_header(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  for (const char* own : {"Accept:", "Expect:"}) add_header(own);  // libcurl's are left out
  set(CURLOPT_HTTPHEADER, headers_.get());
}

nanoseconds HttpCall::deadline() const {
  if (easy_ == nullptr) return nanoseconds::max();
  const HttpDeadlines& deadlines = request_.deadlines;
  const nanoseconds next = is_answered() ? moved_at_ + deadlines.stall : begun_at_ + deadlines.first_byte;
  return std::min<nanoseconds>(next, begun_at_ + deadlines.whole);
}

std::unique_ptr<HttpCall> HttpCall::second(nanoseconds now) const {
  auto call = std::make_unique<HttpCall>(number_, request_, sink_, now - response_.waited);
  call->is_second_ = true;
  return call;
}

nanoseconds HttpCall::hedged_at(const HedgePolicy& policy) const {
  if (easy_ == nullptr || request_.hedged_bytes == 0) return nanoseconds::max();
  return head_seen_ ? answered_at_ + policy.body_by(request_.hedged_bytes) : begun_at_ + policy.first_byte_by();
}

void HttpCall::keep_answer_of(const HttpCall& other) {
  if (other.response_.bytes > 0) other_ = other.response_;
}

bool HttpCall::is_good() const {
  const int status = response_.head.status;
  return response_.failure == HttpFailure::kNone && status >= 200 && status < 400;
}

void HttpCall::note_time(nanoseconds now) {
  if (has_sent_more()) begun_at_ = moved_at_ = now;
  const size_t bytes = received_;
  if (bytes < bytes_at_move_ + request_.deadlines.least_bytes && is_answered() && head_seen_) return;
  if (is_answered() && !head_seen_) answered_at_ = now;
  head_seen_ = is_answered();
  bytes_at_move_ = bytes;
  moved_at_ = now;
}

// `least_bytes` or all that is left, of what libcurl has handed to the system, which holds little more than the network
// takes.
bool HttpCall::has_sent_more() {
  const auto all = static_cast<curl_off_t>(request_.content().size());
  if (easy_ == nullptr || sent_at_move_ == all) return false;
  curl_easy_getinfo(easy_.get(), CURLINFO_SIZE_UPLOAD_T, &sent_);
  // Less where a connection that was closed meanwhile is replaced.
  const curl_off_t more = sent_ - sent_at_move_;
  if (more >= 0 && more < static_cast<curl_off_t>(request_.deadlines.least_bytes) && sent_ < all) return false;
  sent_at_move_ = sent_;
  return true;
}

void HttpCall::time_out() {
  const bool is_sent = sent_ >= static_cast<curl_off_t>(request_.content().size());
  if (is_answered()) {
    fail(HttpFailure::kTimeout, "the answer came too slowly, or not to its end");
  } else if (is_sent) {
    fail(HttpFailure::kTimeout, "no answer came in time");
  } else {
    fail(HttpFailure::kTimeout,
         fmt::format("not enough could be sent in time: {} of {} bytes", sent_, request_.content().size()));
  }
}

void HttpCall::refuse(std::string reason) { fail(HttpFailure::kRefused, std::move(reason)); }

void HttpCall::cancel() { fail(HttpFailure::kCancelled, "it was cancelled"); }

void HttpCall::conclude(CURLcode code) {
  if (code != CURLE_OK && response_.failure == HttpFailure::kNone && !is_cut_) {
    const std::string text = without_proxy_url(error_[0] != '\0' ? error_.data() : curl_easy_strerror(code));
    if (is_sent_in_vain_) {
      fail(HttpFailure::kTransport, "the connection broke off before an answer came");
    } else if (const int status = proxy_refusal(easy_.get()); status != 0) {
      fail(is_busy_status(status) ? HttpFailure::kTransport : HttpFailure::kRefused,
           fmt::format("the proxy refuses the connection: {}", text));
    } else {
      fail(failure_of(code, text), text);
    }
  }
  easy_.reset();
}

void HttpCall::tell() {
  const bool is_wanted = response_.failure != HttpFailure::kCancelled && !is_good();
  if (is_wanted && other_ && other_->bytes > response_.bytes) response_ = *std::move(other_);
  sink_->answered(std::move(response_));
}

void HttpCall::set_method() {
  switch (request_.method) {
    case HttpMethod::kGet: set(CURLOPT_HTTPGET, 1L); return;
    case HttpMethod::kHead: set(CURLOPT_NOBODY, 1L); return;
    default: break;
  }
  // libcurl sends a request again by itself where a connection that it had kept breaks off before an answer. Whether
  // one that changes something was carried out already only who asks again can see to.
  set(CURLOPT_PREREQFUNCTION, &HttpCall::begin_sending);
  set(CURLOPT_PREREQDATA, this);
  set(CURLOPT_POST, 1L);
  const std::string_view content = request_.content();
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(content.size()));
  set(CURLOPT_POSTFIELDS, content.empty() ? "" : content.data());
  set(CURLOPT_CUSTOMREQUEST, to_string(request_.method).data());
}

void HttpCall::add_header(const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

void HttpCall::fail(HttpFailure failure, std::string reason) {
  response_.failure = failure;
  response_.reason = std::move(reason);
}

int HttpCall::begin_sending(void* self, char* /*ip*/, char* /*local_ip*/, int /*port*/, int /*local_port*/) noexcept {
  HttpCall& call = *static_cast<HttpCall*>(self);
  call.is_sent_in_vain_ = std::exchange(call.is_sending_, true);
  return call.is_sent_in_vain_ ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

size_t HttpCall::take_header(char* data, size_t /*one*/, size_t size, void* self) noexcept {
  return static_cast<HttpCall*>(self)->header({data, size}) ? size : 0;
}

size_t HttpCall::take_body(char* data, size_t /*one*/, size_t size, void* self) noexcept {
  return static_cast<HttpCall*>(self)->body({data, size}) ? size : 0;
}

bool HttpCall::header(std::string_view line) noexcept {
  try {
    if (line.starts_with("HTTP/")) {  // also after an interim answer
      plan_ = {};
      is_planned_ = false;
    }
    response_.head.add_line(line);
    return true;
  } catch (...) {
    return false;
  }
}

bool HttpCall::body(std::string_view bytes) noexcept {
  try {
    if (!std::exchange(is_planned_, true)) {
      if (request_.plan) plan_ = request_.plan(response_.head);
      if (!plan_.refusal.empty()) fail(HttpFailure::kRefused, plan_.refusal);
    }
    if (response_.failure != HttpFailure::kNone) return false;
    received_ += bytes.size();
    if (!plan_.into) {
      if (response_.body.size() + bytes.size() > request_.most_body) {
        fail(HttpFailure::kTooLong, fmt::format("the answer has more than {} bytes", request_.most_body));
        return false;
      }
      response_.body += bytes;
      return true;
    }
    const std::span<std::byte> room = plan_.into->subspan(response_.bytes);
    const size_t fits = std::min(bytes.size(), room.size());
    if (fits > 0) std::memcpy(room.data(), bytes.data(), fits);
    response_.bytes += fits;
    if (fits == bytes.size()) return true;
    is_cut_ = plan_.may_be_cut;
    if (!is_cut_) {
      fail(HttpFailure::kTooLong, fmt::format("the answer has more than the {} bytes asked for", plan_.into->size()));
    }
    return false;
  } catch (...) {
    return false;
  }
}

}  // namespace millrace
