#include "millrace/formats/storage/remote/json_web_token.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include <nlohmann/json.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "millrace/formats/base64.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr int kLeastKeyBits = 2048;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// OpenSSL's queue of errors is of the thread: what is left there would be taken for an error of a TLS connection.
struct ClearErrors {
  ~ClearErrors() { ERR_clear_error(); }
};

// Asked for by OpenSSL's function, which else asks a terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*is_writing*/, void* /*data*/) { return -1; }

std::unique_ptr<EVP_PKEY, Free> read_key(const std::string& pem) {
  const auto size = static_cast<int>(std::min<size_t>(pem.size(), std::numeric_limits<int>::max()));
  const std::unique_ptr<BIO, Free> text(BIO_new_mem_buf(pem.data(), size));
  if (text == nullptr) throw std::bad_alloc();
  std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PrivateKey(text.get(), nullptr, &no_password, nullptr));
  if (key == nullptr || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) {
    throw ErrorException(ErrorCode::kInvalidArgument, "the private key is no RSA key in PEM without a password");
  }
  if (EVP_PKEY_get_bits(key.get()) < kLeastKeyBits) {
    throw ErrorException(ErrorCode::kInvalidArgument, "the private key has less than 2048 bits");
  }
  return key;
}

}  // namespace

std::string encode_base64url(std::string_view bytes) {
  std::string text = encode_base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::string sign_rs256(std::string_view text, const std::string& key) {
  const ClearErrors clear;
  const auto parsed = read_key(key);
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  if (context == nullptr) throw std::bad_alloc();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string signature;
  size_t size = 0;
  bool works = EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, parsed.get()) == 1 &&
               EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  if (works) {
    signature.resize(size);
    works = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes,
                           text.size()) == 1;
  }
  if (!works) throw ErrorException(ErrorCode::kInvalidArgument, "the private key cannot sign");
  signature.resize(size);
  return signature;
}

std::string sign_json_web_token(std::string_view claims, const std::string& key_id, const std::string& key) {
  nlohmann::ordered_json header{{"alg", "RS256"}, {"typ", "JWT"}};
  if (!key_id.empty()) header["kid"] = key_id;
  std::string token = encode_base64url(header.dump()) + "." + encode_base64url(claims);
  return token + "." + encode_base64url(sign_rs256(token, key));
}

}  // namespace millrace
