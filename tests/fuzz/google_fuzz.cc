#include "tests/fuzz/google_fuzz.h"

#include <string>

#include "millrace/formats/storage/remote/gcs_listing.h"
#include "millrace/formats/storage/remote/google_error.h"
#include "millrace/formats/storage/remote/google_token.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

void read_credentials(std::string_view bytes) {
  GoogleCredentialsFile file;
  try {
    file = parse_google_credentials(bytes, "f.json");
  } catch (const ErrorException& exception) {
    return require_refusal(exception, {ErrorCode::kParse});
  }
  require(file.token_uri.starts_with("http") && file.token_uri.find(' ') == std::string::npos);
  using Type = GoogleCredentialsFile::Type;
  if (file.type == Type::kServiceAccount) require(!file.private_key.empty());
  if (file.type == Type::kAuthorizedUser) require(!file.refresh_token.empty() && !file.client_secret.empty());
  if (file.type == Type::kExternalAccount) {
    require(!file.audience.empty() && file.subject.file.empty() == file.subject.url.starts_with("http"));
    for (const auto& [name, value] : file.subject.headers) {
      require(!name.empty() && (name + value).find_first_of("\r\n") == std::string::npos);
    }
  }
  if (file.impersonation) {
    require(file.impersonation->url.starts_with("http") && !file.impersonation->account.empty());
    require(impersonation_body(*file.impersonation, "scope").starts_with('{'));
  }
  try {
    const std::string form = google_token_form(file, "scope", {}, "subject token");
    require(form.starts_with("grant_type=") && form.find_first_of(" \r\n") == std::string::npos);
  } catch (const ErrorException& exception) {
    require(file.type == Type::kServiceAccount);  // whose key is none
    require_refusal(exception, {ErrorCode::kInvalidArgument});
  }
}

template <typename Parse>
void read_token(Parse parse) {
  try {
    const GoogleTokenAnswer answer = parse();
    require(!answer.access_token.empty() && answer.access_token.find_first_of(" \r\n") == std::string::npos);
    require(answer.expires_in > std::chrono::seconds(0) && answer.expires_in <= std::chrono::hours(24));
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
  }
}

void read_subject_token(std::string_view bytes, const SubjectTokenSource& source) {
  try {
    const std::string token = parse_subject_token(bytes, source);
    require(!token.empty() && token.front() != ' ' && token.back() != '\n');
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
  }
}

void read_error(std::string_view bytes) {
  const std::string text = parse_google_error(400, bytes).to_string();
  require(text.starts_with("status 400") && text.size() <= 2000 && text.find('\n') == std::string::npos);
}

void read_page(std::string_view bytes) {
  try {
    const ListedPage page = parse_gcs_page(bytes);
    for (const ListedObject& object : page.objects) {
      require(!object.key.empty());
      require(object.version.generation.find_first_not_of("0123456789") == std::string::npos);
    }
    for (const std::string& folder : page.folders) require(!folder.empty());
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
  }
}

}  // namespace

void fuzz_google_credentials(std::string_view bytes) {
  read_credentials(bytes);
  read_token([&] { return parse_google_token(bytes); });
  read_token([&] { return parse_impersonated_token(bytes, {}); });
  for (const char* field : {"", "access_token"}) read_subject_token(bytes, {.field = field});
  read_error(bytes);
}

void fuzz_gcs_list_page(std::string_view bytes) { read_page(bytes); }

}  // namespace millrace::test
