# The rules of the edge. Where servers and bucket are stands in site.vcl, which varnish.sh writes.
#
# An answer is fetched on up to three legs, noted in bereq.http.DS-Leg:
#   straight  ask the bucket for the chunk that the offset names      (where EDGE_STRAIGHT is set)
#   ask       ask a server, which may name an object instead of sending its bytes
#   object    fetch that object
#   plain     ask a server for everything, because the bucket has failed
vcl 4.1;

import std;

include "site.vcl";

sub vcl_recv {
    set req.http.DS-Their-Secret = req.http.DS-Edge-Secret;
    unset req.http.DS-Edge-Secret;
    unset req.http.DS-Straight;
    unset req.http.DS-Leg;
    call site;

    if (req.method == "BAN") {
        call purge;
    }
    unset req.http.DS-Their-Secret;

    if (req.method != "GET" || req.url ~ "[?&]offset=now(&|$)") {
        return (pass);
    }
    if (req.url ~ "^/ds/[^/?]+/[^/?]+/snapshot/[^/?]+$") {
        unset req.http.Accept-Encoding;
        unset req.http.Cookie;
        return (hash);
    }
    # Buckets, their listings, and what is said of a stream as of this moment are not kept.
    if (req.url !~ "^/v1/stream/" && req.url !~ "^/ds/[^/?]+/(?!streams(?:\?|$))[^/?]+(?:\?|$)") {
        return (pass);
    }
    # An answer is the same for everybody, whole and uncompressed.
    unset req.http.Range;
    unset req.http.Accept-Encoding;
    unset req.http.Cookie;
    set req.url = std.querysort(req.url);
    if (req.url !~ "[?&]live=") {
        # Only live reads mean something by it.
        set req.url = regsub(regsub(req.url, "([?&])cursor=[^&]*(&|$)", "\1"), "[?&]$", "");
    }
    # What may be served stale to spare an origin in good health; beyond that only to replace one.
    if (std.healthy(req.backend_hint)) {
        set req.grace = 300s;
    }
    return (hash);
}

sub purge {
    if (!req.http.DS-Edge-Secret || req.http.DS-Their-Secret != req.http.DS-Edge-Secret) {
        return (synth(403, "Forbidden"));
    }
    if (req.http.Cache-Tag !~ "^[A-Za-z0-9_.~%-]+$") {
        return (synth(400, "Bad tag"));
    }
    ban("obj.http.Cache-Tag == " + req.http.Cache-Tag);
    return (synth(200, "Banned"));
}

sub vcl_hash {
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_fetch {
    if (!bereq.http.DS-Leg) {
        set bereq.http.DS-Url = bereq.url;
        set bereq.http.DS-Host = bereq.http.Host;
        set bereq.http.DS-Leg = "ask";
        # A chunk's name is the offset where it starts. A name of dots alone would be a path.
        if (bereq.http.DS-Straight && !bereq.uncacheable
            && bereq.url ~ "^/v1/stream/(?!\.+\?)[^?]+\?offset=[0-9]{16}_[0-9]{16}$") {
            set bereq.http.DS-Leg = "straight";
        }
    }
    if (bereq.http.DS-Leg == "straight") {
        call name_chunk;
    } elsif (bereq.http.DS-Leg == "object") {
        set bereq.backend = bucket;
        set bereq.url = bereq.http.DS-Object;
        set bereq.http.Host = bereq.http.DS-Object-Host;
    } else {
        set bereq.url = bereq.http.DS-Url;
        if (bereq.retries > 0 && bereq.http.DS-Host != "") {
            set bereq.http.Host = bereq.http.DS-Host;
        }
        if (bereq.http.DS-Leg == "plain") {
            unset bereq.http.DS-Edge-Secret;
        }
        # Above the planned life of a quiet SSE answer and the longest wait of a long-poll.
        set bereq.first_byte_timeout = 90s;
        set bereq.between_bytes_timeout = 90s;
        return (fetch);
    }
    # The server purges once more when a fetch from the bucket that took this long has failed.
    set bereq.first_byte_timeout = 10s;
    unset bereq.http.DS-Edge-Secret;
    unset bereq.http.Authorization;
    unset bereq.http.If-None-Match;
    unset bereq.http.If-Modified-Since;
    return (fetch);
}

sub name_chunk {
    set bereq.http.DS-Name = regsub(bereq.url, "^/v1/stream/([^?]*)\?.*$", "\1");
    set bereq.http.DS-Offset = regsub(bereq.url, "^.*offset=", "");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, "/", "%2F");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, ":", "%3A");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, "@", "%40");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, ",", "%2C");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, "=", "%3D");
    set bereq.http.DS-Name = regsuball(bereq.http.DS-Name, "\+", "%2B");
    set bereq.backend = bucket;
    unset bereq.http.Host;
    set bereq.url = bereq.http.DS-Straight + "chunks/"
        + regsuball(bereq.http.DS-Name, "%", "%25") + "/" + bereq.http.DS-Offset;
}

sub vcl_backend_response {
    if (bereq.http.DS-Leg == "straight") {
        if (beresp.status != 200 || !beresp.http.x-amz-meta-stream-next-offset
            || beresp.http.x-amz-meta-stream-lifetime) {
            call ask_instead;
        }
        call measure_straight;
        call dress_straight;
    } elsif (bereq.http.DS-Leg == "object") {
        # One that is not as long as it was written is damaged: the server says which.
        if (beresp.status != 200 || beresp.http.Content-Length != bereq.http.DS-Object-Length) {
            call ask_plainly;
        }
        call dress_object;
    } elsif (beresp.http.DS-Object) {
        call remember;
        return (retry);
    }
    unset beresp.http.X-Accel-Redirect;
    if (bereq.uncacheable) {
        return (deliver);
    }
    # It named another reader's request.
    unset beresp.http.X-Request-Id;
    call keep_for;
    return (deliver);
}

sub keep_for {
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (beresp.http.Cache-Control ~ "private") {
        call do_not_keep;
    } elsif (beresp.status == 204) {
        # Waiters share it: a cursor always advances, so nobody comes back to this one.
        set beresp.ttl = 1s;
    } elsif (beresp.http.Content-Type ~ "^text/event-stream" && beresp.status == 200) {
        # For less than its planned life: one that has ended would be replayed at once.
        set beresp.ttl = std.duration(beresp.http.DS-Edge-Seconds + "s", 55s);
    } elsif (beresp.status != 200 || beresp.http.Cache-Control !~ "max-age="
        || beresp.http.Cache-Control ~ "no-store|no-cache") {
        call do_not_keep;
    } elsif (beresp.http.Cache-Control ~ "s-maxage=") {
        set beresp.ttl = std.duration(
            regsub(beresp.http.Cache-Control, "^.*s-maxage=([0-9]+).*$", "\1s"), 0s);
    } else {
        set beresp.ttl = std.duration(
            regsub(beresp.http.Cache-Control, "^.*max-age=([0-9]+).*$", "\1s"), 0s);
    }
    if (beresp.ttl <= 0s) {
        call do_not_keep;
    }
    unset beresp.http.DS-Edge-Seconds;
    if (beresp.http.Cache-Control ~ "stale-if-error=86400") {
        set beresp.grace = 86400s;
    }
    if (beresp.http.Stream-Snapshot-Offset && beresp.http.ETag && !beresp.uncacheable) {
        # Only whether there is newer data is asked for again, not the bytes.
        set beresp.keep = 3600s;
    }
}

# For a moment those who ask the same do not wait for each other.
sub do_not_keep {
    set beresp.uncacheable = true;
    set beresp.ttl = 1s;
}

sub ask_instead {
    set bereq.http.DS-Leg = "ask";
    call site_back;
    return (retry);
}

sub ask_plainly {
    set bereq.http.DS-Leg = "plain";
    call site_back;
    return (retry);
}

# What the server says of an answer whose bytes come from the bucket. What it did not say is "".
sub remember {
    set bereq.http.DS-Leg = "object";
    set bereq.http.DS-Object = beresp.http.DS-Object;
    set bereq.http.DS-Object-Host = beresp.http.DS-Object-Host;
    set bereq.http.DS-Object-Length = beresp.http.DS-Object-Length;
    set bereq.http.DS-Content-Type = beresp.http.Content-Type;
    set bereq.http.DS-Cache-Control = beresp.http.DS-Cache-Control;
    set bereq.http.DS-ETag = beresp.http.ETag;
    set bereq.http.DS-Cache-Tag = beresp.http.Cache-Tag;
    set bereq.http.DS-Next-Offset = beresp.http.Stream-Next-Offset;
    set bereq.http.DS-Up-To-Date = beresp.http.Stream-Up-To-Date;
    set bereq.http.DS-Closed = beresp.http.Stream-Closed;
    set bereq.http.DS-Options = beresp.http.X-Content-Type-Options;
    set bereq.http.DS-Policy = beresp.http.Cross-Origin-Resource-Policy;
    set bereq.http.DS-Expose = beresp.http.Access-Control-Expose-Headers;
    set bereq.http.DS-Origin = beresp.http.Access-Control-Allow-Origin;
    set bereq.http.DS-Vary = beresp.http.Vary;
}

sub dress_object {
    call undress;
    set beresp.http.Content-Type = bereq.http.DS-Content-Type;
    set beresp.http.Cache-Control = bereq.http.DS-Cache-Control;
    set beresp.http.ETag = bereq.http.DS-ETag;
    set beresp.http.Cache-Tag = bereq.http.DS-Cache-Tag;
    set beresp.http.Stream-Next-Offset = bereq.http.DS-Next-Offset;
    set beresp.http.X-Content-Type-Options = bereq.http.DS-Options;
    set beresp.http.Cross-Origin-Resource-Policy = bereq.http.DS-Policy;
    set beresp.http.Access-Control-Expose-Headers = bereq.http.DS-Expose;
    if (bereq.http.DS-Up-To-Date != "") {
        set beresp.http.Stream-Up-To-Date = bereq.http.DS-Up-To-Date;
    }
    if (bereq.http.DS-Closed != "") {
        set beresp.http.Stream-Closed = bereq.http.DS-Closed;
    }
    if (bereq.http.DS-Origin != "") {
        set beresp.http.Access-Control-Allow-Origin = bereq.http.DS-Origin;
    }
    if (bereq.http.DS-Vary != "") {
        set beresp.http.Vary = bereq.http.DS-Vary;
    }
}

# A chunk has as many bytes as its offsets are apart; JSON has one more (see docs/format.md).
# Varnish takes no number of more than 15 digits: zeros in front count.
sub measure_straight {
    set bereq.http.DS-Object-Length =
        std.integer(regsub(beresp.http.x-amz-meta-stream-next-offset, "^[0-9]+_0*([0-9])", "\1"), -1)
        - std.integer(regsub(bereq.http.DS-Offset, "^[0-9]+_0*([0-9])", "\1"), 0);
    if (beresp.http.x-amz-meta-stream-content-type ~ "(?i)^\s*application/json\s*(;|$)") {
        set bereq.http.DS-Object-Length = std.integer(bereq.http.DS-Object-Length, 0) + 1;
    }
    if (beresp.http.Content-Length != bereq.http.DS-Object-Length) {
        call ask_instead;
    }
}

# The same headers as a server would send, put together from the offset and the object's metadata.
sub dress_straight {
    set bereq.http.DS-Next-Offset = beresp.http.x-amz-meta-stream-next-offset;
    set bereq.http.DS-Content-Type = beresp.http.x-amz-meta-stream-content-type;
    call undress;
    set beresp.http.Content-Type = bereq.http.DS-Content-Type;
    set beresp.http.Cache-Control = "public, max-age=31536000, immutable";
    set beresp.http.ETag = {"""} + regsub(bereq.http.DS-Offset, "^0*([0-9]+)_0*([0-9]+)$", "\1:\2")
        + ":" + regsub(bereq.http.DS-Next-Offset, "^[0-9]+_0*([0-9]+)$", "\1") + {"""};
    set beresp.http.Cache-Tag = "stream-" + bereq.http.DS-Name;
    set beresp.http.Stream-Next-Offset = bereq.http.DS-Next-Offset;
    set beresp.http.X-Content-Type-Options = "nosniff";
    set beresp.http.Cross-Origin-Resource-Policy = "cross-origin";
    set beresp.http.Access-Control-Allow-Origin = "*";
    set beresp.http.Access-Control-Expose-Headers = "X-Request-Id, ETag, Location, Content-Type, Retry-After, Accept-Ranges, Content-Range, Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, Stream-TTL, Stream-Expires-At, Stream-SSE-Data-Encoding, Stream-Snapshot-Offset, Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq";
}

# What a store says of an object is nobody's business.
sub undress {
    unset beresp.http.Accept-Ranges;
    unset beresp.http.Content-Disposition;
    unset beresp.http.Content-Language;
    unset beresp.http.Content-Security-Policy;
    unset beresp.http.Expires;
    unset beresp.http.Last-Modified;
    unset beresp.http.Referrer-Policy;
    unset beresp.http.Server;
    unset beresp.http.Strict-Transport-Security;
    unset beresp.http.Vary;
    unset beresp.http.X-Frame-Options;
    unset beresp.http.X-XSS-Protection;
    unset beresp.http.Access-Control-Allow-Credentials;
    unset beresp.http.Access-Control-Allow-Headers;
    unset beresp.http.Access-Control-Allow-Methods;
    unset beresp.http.Access-Control-Allow-Origin;
    unset beresp.http.Access-Control-Expose-Headers;
    unset beresp.http.Access-Control-Max-Age;
    unset beresp.http.Seaweed-X-Amz-ETag;
    unset beresp.http.Seaweed-X-Amz-Owner;
    unset beresp.http.x-amz-bucket-region;
    unset beresp.http.x-amz-checksum-crc32;
    unset beresp.http.x-amz-checksum-crc32c;
    unset beresp.http.x-amz-checksum-crc64nvme;
    unset beresp.http.x-amz-checksum-sha1;
    unset beresp.http.x-amz-checksum-sha256;
    unset beresp.http.x-amz-checksum-type;
    unset beresp.http.x-amz-expiration;
    unset beresp.http.x-amz-id-2;
    unset beresp.http.x-amz-meta-stream-content-type;
    unset beresp.http.x-amz-meta-stream-lifetime;
    unset beresp.http.x-amz-meta-stream-next-offset;
    unset beresp.http.x-amz-replication-status;
    unset beresp.http.x-amz-request-id;
    unset beresp.http.x-amz-server-side-encryption;
    unset beresp.http.x-amz-server-side-encryption-aws-kms-key-id;
    unset beresp.http.x-amz-server-side-encryption-bucket-key-enabled;
    unset beresp.http.x-amz-storage-class;
    unset beresp.http.x-amz-tagging-count;
    unset beresp.http.x-amz-version-id;
    unset beresp.http.x-amzn-requestid;
    unset beresp.http.X-Ratelimit-Limit;
    unset beresp.http.X-Ratelimit-Remaining;
}

sub vcl_backend_error {
    if (bereq.http.DS-Leg == "straight") {
        call ask_instead;
    }
    if (bereq.http.DS-Leg == "object") {
        call ask_plainly;
    }
    set beresp.status = 503;
    set beresp.http.Content-Type = "application/problem+json";
    set beresp.http.Cache-Control = "no-store";
    set beresp.http.Retry-After = "1";
    set beresp.http.Access-Control-Allow-Origin = "*";
    set beresp.http.Access-Control-Expose-Headers = "Retry-After";
    set beresp.http.X-Content-Type-Options = "nosniff";
    unset beresp.http.Server;
    synthetic("""{"title":"Service Unavailable","status":503,"detail":"The server is out of reach."}""");
    # Those who wait for the same get the same, instead of one attempt after the other.
    set beresp.ttl = 1s;
    set beresp.grace = 0s;
    return (deliver);
}

sub vcl_deliver {
    if (obj.uncacheable) {
        set resp.http.X-Cache = "PASS";
    } elsif (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
    if (!resp.http.Stream-Snapshot-Offset) {
        unset resp.http.Accept-Ranges;
    }
    unset resp.http.Cache-Tag;
    unset resp.http.Surrogate-Key;
    unset resp.http.Server;
    unset resp.http.Via;
    unset resp.http.X-Varnish;
    return (deliver);
}

sub vcl_synth {
    set resp.http.Content-Type = "text/plain; charset=utf-8";
    set resp.http.Cache-Control = "no-store";
    synthetic(resp.reason);
    return (deliver);
}
