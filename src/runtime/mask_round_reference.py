"""A masked round by the text of docs/deployment.md, with fixed keys, for mask_round_wire_test.cc.

Written without the C++ sources' code: Python's integers, hashlib, zlib, and the package `cryptography` for X25519,
HKDF-SHA256, AES-256-GCM, AES-256-CTR and Ed25519 (in place of the certificates' ECDSA, whose signatures are not
the same twice). Prints the constants of the test: `python3 src/runtime/mask_round_reference.py`.
"""
import hashlib
import struct
import zlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

P = 2**61 - 1
JOB, ROUND, ATTEMPT = b"0123456789abcdef0123456789abcdef", 7, bytes(range(16))
THRESHOLD = 3                     # of 5 clients with nobody colluding
KEYED = SHARING = [0, 2, 3, 4]    # client 1 is lost before it has keys, client 3 before its input
COUNTED = [0, 2, 4]
BITS, DIM = 24, 5
LETTERS, MASKS, SEED, SIGNING = range(4)


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def octets(b):
    return u64(len(b)) + b


def ids(numbers):
    return u64(len(numbers)) + u32(*numbers)


def frame(*fields):
    payload = b"".join(fields)
    return b"TCT1" + u32(zlib.crc32(payload)) + u64(len(payload)) + payload


def secret(kind, client):
    return bytes((37 * kind + 11 * client + 7 * k + 1) % 256 for k in range(32))


def public(kind, client):
    return X25519PrivateKey.from_private_bytes(secret(kind, client)).public_key().public_bytes_raw()


def agree(kind, own, other):
    theirs = X25519PublicKey.from_public_bytes(public(kind, other))
    return X25519PrivateKey.from_private_bytes(secret(kind, own)).exchange(theirs)


def text(purpose):
    return purpose + b"\0" + u32(len(JOB)) + JOB + u32(ROUND) + ATTEMPT


def derive(key, purpose, context):
    return HKDF(SHA256(), 32, salt=None, info=purpose + b"\0" + context).derive(key)


def sign(client, message):
    return Ed25519PrivateKey.from_private_bytes(secret(SIGNING, client)).sign(message)


def certificate(client):          # here the public key alone
    return Ed25519PrivateKey.from_private_bytes(secret(SIGNING, client)).public_key().public_bytes_raw()


def keys(client):
    return public(LETTERS, client) + public(MASKS, client)


def keys_text(client):
    return text(b"tacit masks: keys") + u32(client) + keys(client)


def words(b):                     # of a secret: 7, 7, 7, 7 and 4 bytes
    return [int.from_bytes(b[7 * w:7 * w + 7], "little") for w in range(5)]


def share(kind, client, holder):
    out = []
    for w, value in enumerate(words(secret(kind, client))):
        for k in range(1, THRESHOLD):
            coin = hashlib.sha256(f"{kind} {client} {w} {k}".encode()).digest()
            value += int.from_bytes(coin[:8], "little") % P * (holder + 1) ** k
        out.append(value % P)
    return out


def pair(client, holder):
    return u64(*share(MASKS, client, holder), *share(SEED, client, holder))


def letter_text(sender, receiver):
    return text(b"tacit masks: share") + u32(sender, receiver)


def letter_key(sender, receiver):
    return derive(agree(LETTERS, sender, receiver), b"tacit share", letter_text(sender, receiver))


def letter(sender, receiver):
    return AESGCM(letter_key(sender, receiver)).encrypt(bytes(12), pair(sender, receiver), letter_text(sender, receiver))


def commitment(client):
    return hashlib.sha256(text(b"tacit masks: seed") + secret(SEED, client)).digest()


def stream(key, size):
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def numbers(key):
    width = BITS // 8
    b = stream(key, width * DIM)
    return [int.from_bytes(b[width * j:width * (j + 1)], "little") for j in range(DIM)]


def self_mask(client):
    return derive(secret(SEED, client), b"tacit self mask", text(b""))


def pair_mask(a, b):
    return derive(agree(MASKS, a, b), b"tacit pair mask", text(b"") + u32(min(a, b), max(a, b)))


def update(client):
    return [1000 * client + j - 3 for j in range(DIM)]


def covered(client):
    y = [u + m for u, m in zip(update(client), numbers(self_mask(client)))]
    for other in SHARING:
        if other != client:
            sign_of = 1 if other > client else -1
            y = [v + sign_of * m for v, m in zip(y, numbers(pair_mask(client, other)))]
    return [v % 2**BITS for v in y]


def masked(values):
    return frame(u32(BITS), u64(len(values)), b"".join((v % 2**BITS).to_bytes(BITS // 8, "little") for v in values))


def survivors_text():
    return (text(b"tacit masks: survivors") + hashlib.sha256(question2()).digest()
            + u32(len(SHARING), *SHARING) + u32(len(COUNTED), *COUNTED))


def question1():
    return frame(octets(ATTEMPT))


def question2():
    certificates = [certificate(i) for i in KEYED]
    signatures = [sign(i, keys_text(i)) for i in KEYED]
    return frame(octets(ATTEMPT), ids(KEYED), octets(b"".join(keys(i) for i in KEYED)),
                 ids([len(c) for c in certificates]), octets(b"".join(certificates)),
                 ids([len(s) for s in signatures]), octets(b"".join(signatures)))


def answer2(client):
    return frame(octets(commitment(client)), octets(b"".join(letter(client, i) for i in KEYED if i != client)))


def broadcast():
    return frame(u32(ROUND - 1))


def personal3(client):
    return frame(octets(ATTEMPT), ids(SHARING), octets(b"".join(letter(i, client) for i in SHARING if i != client)))


def question4():
    return frame(octets(ATTEMPT), ids(COUNTED))


def answer4(client):
    return frame(octets(sign(client, survivors_text())))


def question5():
    signatures = [sign(i, survivors_text()) for i in COUNTED]
    return frame(octets(ATTEMPT), ids(COUNTED), ids([len(s) for s in signatures]), octets(b"".join(signatures)))


def answer5(client):
    values = []
    for i in SHARING:
        values += share(SEED if i in COUNTED else MASKS, i, client)
    return frame(u64(len(values)) + u64(*values))


def show(name, *values):
    def lines(v):
        return "\n    ".join(f'"{v.hex()[k:k + 100]}"' for k in range(0, 2 * len(v), 100))
    if len(values) == 1:
        print(f"constexpr const char* {name} =\n    {lines(values[0])};")
    else:
        print(f"constexpr const char* {name}[] = {{\n    " + ",\n    ".join(lines(v) for v in values) + "};")


def main():
    who = 2                       # the client whose answers are looked at
    others = [i for i in KEYED if i != who]
    show("kPublic", *(keys(i) for i in KEYED))
    show("kKeysText", keys_text(who))
    show("kQuestion1", question1())
    show("kQuestion2", question2())
    show("kCommitments", *(commitment(i) for i in KEYED))
    show("kLetterTexts", *(letter_text(who, i) for i in others))
    show("kLetterKeys", *(letter_key(who, i) for i in others))
    show("kOwnShares", pair(who, who))
    show("kAnswer2", answer2(who))
    show("kQuestion3", broadcast() + personal3(who))
    show("kSelfMask", stream(self_mask(who), 16))
    show("kPairMask", stream(pair_mask(who, 3), 16))
    show("kAnswers3", *(masked(covered(i)) for i in COUNTED))
    show("kSurvivorsText", survivors_text())
    show("kQuestion4", question4())
    show("kAnswers4", *(answer4(i) for i in COUNTED))
    show("kQuestion5", question5())
    show("kAnswers5", *(answer5(i) for i in COUNTED))
    # The sum, as the server finds it: masks of the shares it was given, taken off.
    total = [sum(v) for v in zip(*(covered(i) for i in COUNTED))]
    for i in COUNTED:
        total = [t - m for t, m in zip(total, numbers(self_mask(i)))]
        total = [t - (1 if 3 > i else -1) * m for t, m in zip(total, numbers(pair_mask(i, 3)))]
    assert [t % 2**BITS for t in total] == [sum(v) % 2**BITS for v in zip(*(update(i) for i in COUNTED))]
    show("kSum", masked(total))


if __name__ == "__main__":
    main()
