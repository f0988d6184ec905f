#include "millrace/formats/storage/remote/aws_credentials.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/aws_credential_sources.h"
#include "millrace/formats/storage/remote/credential_process.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/small_file.h"
#include "millrace/formats/text/lower_case.h"

namespace millrace {
namespace {

using Fetched = Refreshed<AwsCredentials>::Fetched;
using Done = std::function<void(Fetched)>;

constexpr size_t kMostToken = 64 << 10;

[[noreturn]] void refuse(const std::string& what) { throw ErrorException(ErrorCode::kIo, what); }

// A token as a field of HTTP has it, which may be of several words, as `Basic abc`.
std::string authorization_of(const std::string& what, const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  std::string token = text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
  if (token.empty()) refuse(fmt::format("{} is empty", what));
  if (!std::ranges::all_of(token, [](char c) { return ' ' <= c && c <= '~'; })) {
    refuse(fmt::format("{} has characters that no token has, such as the end of a line", what));
  }
  return token;
}

std::string token_in(const std::string& path) {
  const std::optional<std::string> text = read_small_file(path, kMostToken);
  if (!text) refuse(fmt::format("there is no file {}", path));
  return authorization_of("the token in " + path, *text);
}

enum class From { kAny, kGiven, kEnvironment, kWebIdentity, kProfile, kContainer, kInstance };

class Chain : public std::enable_shared_from_this<Chain> {
 public:
  Chain(std::shared_ptr<HttpEngine> engine, AwsCredentialOptions options)
      : engine_(std::move(engine)), options_(std::move(options)), sources_{.engine = engine_} {}

  void fetch(Done done) noexcept {
    std::string source = "the options";
    guarded(done, source, [&] {
      if (options_.given) return give(done, From::kGiven, {.credentials = *options_.given}, source);
      source = "environment";
      if (options_.profile.empty() && may_be(From::kEnvironment)) {
        const auto id = variable("AWS_ACCESS_KEY_ID");
        const auto secret = variable("AWS_SECRET_ACCESS_KEY");
        if (id || secret) {
          return give(done, From::kEnvironment, keys(id, secret, variable("AWS_SESSION_TOKEN")), source);
        }
      }
      source = "files";
      engine_->run_aside([self = shared_from_this(), done](const std::stop_token& stop) { self->look(done, stop); });
    });
  }

 private:
  std::optional<std::string> variable(std::string_view name) const { return options_.environment(name); }
  // Only who gave some before is asked again.
  bool may_be(From from) const { return given_by_ == From::kAny || given_by_ == from; }

  static void fail(const Done& done, std::string_view source, std::string_view reason) {
    done({.error = fmt::format("no AWS credentials from {}: {}", source, reason)});
  }
  template <typename Function>
  static void guarded(const Done& done, const std::string& source, Function function) noexcept {
    std::string reason;
    try {
      return function();
    } catch (const std::system_error& error) {
      reason = error.what();  // no thread can be started
    } catch (...) {
      reason = current_exception_as_error().message;
    }
    fail(done, source, reason);
  }

  static AwsCredentialAnswer keys(const std::optional<std::string>& id, const std::optional<std::string>& secret,
                                  const std::optional<std::string>& token) {
    check_aws_key("the access key ID", id.value_or(""));
    check_aws_key("the secret access key", secret.value_or(""));
    if (token) check_aws_key("the session token", *token);
    return {.credentials = {.access_key_id = *id, .secret_access_key = *secret, .session_token = token.value_or("")}};
  }

  void give(const Done& done, From from, AwsCredentialAnswer answer, std::string source) {
    if (answer.ends && *answer.ends <= engine_->wall_now()) refuse("they have ended already, by this machine's clock");
    given_by_ = from;
    given_source_ = source;
    answer.credentials.source = std::move(source);
    done({.value = std::make_shared<const AwsCredentials>(std::move(answer.credentials)), .ends = answer.ends});
  }

  // On a thread of its own, since it waits for files and processes.
  void look(const Done& done, const std::stop_token& stop) noexcept {
    std::vector<std::string> looked_at;
    std::string source = "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)";
    guarded(done, source, [&] {
      if (options_.profile.empty()) {
        looked_at.emplace_back("environment: AWS_ACCESS_KEY_ID is not set");
        if (may_be(From::kWebIdentity)) {
          if (const auto file = variable("AWS_WEB_IDENTITY_TOKEN_FILE")) {
            const auto role = variable("AWS_ROLE_ARN");
            if (!role) refuse("AWS_ROLE_ARN is not set");
            return ask_sts(done, From::kWebIdentity, source, *file, *role, variable("AWS_ROLE_SESSION_NAME"),
                           load_aws_profile(options_.environment));
          }
          looked_at.emplace_back("web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set");
        }
      }
      source = "the profile";
      if (may_be(From::kProfile) && look_at_profile(done, stop, source, looked_at)) return;
      source = "the container";
      if (may_be(From::kContainer) && ask_container(done, source, looked_at)) return;
      source = "instance metadata";
      if (may_be(From::kInstance) && ask_instance(done, source, looked_at)) return;
      nobody(done, looked_at);
    });
  }

  void nobody(const Done& done, const std::vector<std::string>& looked_at) const {
    if (given_by_ != From::kAny) {
      return fail(done, given_source_, fmt::format("it has none any more ({})", looked_at.back()));
    }
    done({.value =
              std::make_shared<const AwsCredentials>(AwsCredentials{.source = "anonymous", .looked_at = looked_at})});
  }

  // False: it has none.
  bool look_at_profile(const Done& done, const std::stop_token& stop, std::string& source,
                       std::vector<std::string>& looked_at) {
    const AwsProfile profile = load_aws_profile(options_.environment, options_.profile);
    source = fmt::format("profile {} in {}", profile.name, profile.files);
    if (!profile.is_there) {
      looked_at.push_back(fmt::format("{}: there is none", source));
      return false;
    }
    // A role of other keys: these are not meant for requests themselves.
    const bool assumes_role = !profile.role_arn.empty() && !profile.unsupported.empty();
    const auto given = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
    if (!assumes_role && (!profile.access_key_id.empty() || !profile.secret_access_key.empty())) {
      source = fmt::format("profile {} in {}", profile.name, profile.keys_at);
      give(done, From::kProfile,
           keys(given(profile.access_key_id), given(profile.secret_access_key), given(profile.session_token)), source);
      return true;
    }
    if (!profile.web_identity_token_file.empty()) {
      source = "web identity of " + source;
      if (profile.role_arn.empty()) refuse("it has no role_arn");
      ask_sts(done, From::kProfile, source, profile.web_identity_token_file, profile.role_arn,
              given(profile.role_session_name), profile);
      return true;
    }
    if (!profile.credential_process.empty()) {
      source = "credential_process of " + source;
      // To a shell the end of a line is the end of a command.
      std::string command = profile.credential_process;
      std::ranges::replace(command, '\n', ' ');
      give(done, From::kProfile,
           credentials_of_process(run_credential_process(command, options_.process_deadline, stop)), source);
      return true;
    }
    if (!profile.unsupported.empty()) {
      refuse(
          fmt::format("its {0} is not supported; give it credential_process = aws configure export-credentials "
                      "--profile {1} --format process",
                      profile.unsupported, profile.name));
    }
    looked_at.push_back(fmt::format("{}: it has no keys, credential_process or web_identity_token_file", source));
    return false;
  }

  void ask_sts(const Done& done, From from, const std::string& source, const std::string& token_file,
               const std::string& role, const std::optional<std::string>& session, const AwsProfile& profile) {
    const std::string token = token_in(token_file);
    const std::string endpoint = sts_endpoint(options_.environment, profile, options_.region);
    sources_.ask_sts(endpoint, role, session.value_or("millrace"), token, teller(done, from, source));
  }

  // False: it is none.
  bool ask_container(const Done& done, std::string& source, std::vector<std::string>& looked_at) {
    constexpr const char* kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    constexpr const char* kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    const std::optional<std::string> path = variable(kRelative);
    const std::optional<std::string> url = path ? options_.container_endpoint + *path : variable(kFull);
    if (!url) {
      looked_at.push_back(fmt::format("container: neither {} nor {} is set", kRelative, kFull));
      return false;
    }
    source = fmt::format("the container ({})", path ? kRelative : kFull);
    if (path && !path->starts_with('/')) refuse("it does not begin with /");
    std::string authorization;
    if (const auto file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
      authorization = token_in(*file);
    } else if (const auto token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
      authorization = authorization_of("AWS_CONTAINER_AUTHORIZATION_TOKEN", *token);
    }
    sources_.ask_container(*url, authorization, teller(done, From::kContainer, source));
    return true;
  }

  // False: it is not to be asked.
  bool ask_instance(const Done& done, const std::string& source, std::vector<std::string>& looked_at) {
    const bool is_disabled = lower_case(variable("AWS_EC2_METADATA_DISABLED").value_or("")) == "true";
    if (!options_.ask_instance || is_disabled) {
      looked_at.push_back(fmt::format(
          "{}: {}", source,
          is_disabled ? "AWS_EC2_METADATA_DISABLED is true" : "not asked, since the endpoint is not one of AWS"));
      return false;
    }
    const bool is_ipv6 = lower_case(variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").value_or("")) == "ipv6";
    const std::string endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
                                     .value_or(is_ipv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254");
    const auto tell = teller(done, From::kInstance, source);
    sources_.ask_instance(endpoint, [self = shared_from_this(), done, tell, source, looked_at](AwsSourceResult result) {
      if (!result.is_absent) return tell(std::move(result));
      guarded(done, source, [&] {
        std::vector<std::string> all = looked_at;
        all.push_back(fmt::format("{}: {}", source, result.reason));
        self->nobody(done, all);
      });
    });
    return true;
  }

  // Passes on what a source came to.
  AwsSources::Done teller(const Done& done, From from, const std::string& source) {
    return [self = shared_from_this(), done, from, source](AwsSourceResult result) {
      const std::string whole = result.detail.empty() ? source : fmt::format("{}, {}", source, result.detail);
      guarded(done, whole, [&] {
        if (!result.answer) refuse(result.reason);
        self->give(done, from, std::move(*result.answer), whole);
      });
    };
  }

  const std::shared_ptr<HttpEngine> engine_;
  const AwsCredentialOptions options_;
  const AwsSources sources_;
  // Of the last answer; Refreshed fetches one after another.
  From given_by_ = From::kAny;
  std::string given_source_;
};

}  // namespace

std::shared_ptr<Refreshed<AwsCredentials>> aws_credentials(std::shared_ptr<HttpEngine> engine,
                                                           AwsCredentialOptions options) {
  if (!options.environment) options.environment = process_environment;
  const auto chain = std::make_shared<Chain>(engine, std::move(options));
  return std::make_shared<Refreshed<AwsCredentials>>(std::move(engine),
                                                     [chain](Done done) { chain->fetch(std::move(done)); });
}

}  // namespace millrace
