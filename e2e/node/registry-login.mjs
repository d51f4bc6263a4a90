// Logs service accounts in to a registry: the password is a service account token, and the cluster says whose it is.
// The registry trusts what is signed here. Also stands in for services that give logins for the registry with
// passwords: a token service, Amazon ECR and Google's metadata server.
//
//   node registry-login.mjs API-SERVER AUDIENCE AUTHORITY REVIEWER-CERTIFICATE REVIEWER-KEY CERTIFICATE KEY
//
// Prints its address once it listens, and `login USER` for everybody it lets in. The registry's password and the key of
// the pretended AWS account come in the environment.
import { createHash, createHmac, createPrivateKey, randomUUID, sign, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request } from 'node:https'

const [api, audience, ...files] = process.argv.slice(2)
const [ca, reviewerCert, reviewerKey, certificate, key] = files.map((file) => readFileSync(file))
const signer = createPrivateKey(key)
const chain = [new X509Certificate(certificate).raw.toString('base64')]

const { REGISTRY_PASSWORD: registryPassword, AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = process.env

const server = createServer(async (req, res) => {
  const answer = (status, value) => res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
  try {
    if (req.url === '/exchange') return answer(200, await exchange(await body(req)))
    if (req.headers['x-amz-target']) return answer(200, ecr(req, await body(req)))
    if (req.url.startsWith('/computeMetadata/')) {
      res.setHeader('metadata-flavor', 'Google')
      return answer(200, metadata(req))
    }
  } catch (error) {
    return answer(400, { error: 'invalid_request', error_description: error.message })
  }
  const [, login] = (req.headers.authorization ?? '').split('Basic ')
  const [, password] = Buffer.from(login ?? '', 'base64').toString().split(/:(.*)/s)
  const user = password && (await review(password))
  if (!user) return res.writeHead(401).end('not a token of this cluster')
  console.log(`login ${user}`)
  const scopes = new URL(req.url, 'http://host').searchParams.getAll('scope')
  const access = scopes.map((scope) => scope.split(':')).map(([type, name]) => ({ type, name, actions: ['pull'] }))
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ token: token(user, access), expires_in: 60 }))
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/token`))

async function body(req) {
  const parts = []
  for await (const part of req) parts.push(part)
  return Buffer.concat(parts).toString()
}

// RFC 8693: a login for a service account's token.
async function exchange(text) {
  const form = new URLSearchParams(text)
  if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:token-exchange') throw new Error('another grant')
  const user = await review(form.get('subject_token'))
  if (!user) throw new Error('not a token of this cluster')
  console.log(`exchange ${user}`)
  const type = 'urn:ietf:params:oauth:token-type:access_token'
  return { access_token: registryPassword, issued_token_type: type, token_type: 'Bearer', expires_in: 60 }
}

// Amazon's API: a login for whoever signs with the one key there is.
function ecr(req, text) {
  const { authorization, 'x-amz-target': target, 'x-amz-date': time } = req.headers
  if (!target.endsWith('.GetAuthorizationToken')) throw new Error('another operation')
  const [, access, scope, names, given] = authorization.match(/^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\S+), ?SignedHeaders=(\S+), ?Signature=(\w+)$/)
  if (access !== id) throw new Error('an unknown key')
  const sha256 = (value) => createHash('sha256').update(value).digest('hex')
  const headers = names.split(';').map((name) => `${name}:${req.headers[name].trim()}\n`).join('')
  const request = ['POST', req.url, '', headers, names, sha256(text)].join('\n')
  const signed = ['AWS4-HMAC-SHA256', time, scope, sha256(request)].join('\n')
  const hmac = (with_, what) => createHmac('sha256', with_).update(what).digest()
  if (hmac(scope.split('/').reduce(hmac, `AWS4${secret}`), signed).toString('hex') !== given) throw new Error('a wrong signature')
  console.log(`ecr ${access}`)
  const authorizationToken = Buffer.from(`AWS:${registryPassword}`).toString('base64')
  return { authorizationData: [{ authorizationToken, expiresAt: Date.now() / 1000 + 60 }] }
}

// The metadata server of a machine at Google: its own token, which is also the password.
function metadata(req) {
  if (req.headers['metadata-flavor'] !== 'Google') throw new Error('no header')
  console.log('metadata default')
  return { access_token: registryPassword, token_type: 'Bearer', expires_in: 60 }
}

// Whose token it is; nothing where it is nobody's, or for somebody else.
async function review(token) {
  const body = JSON.stringify({
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    spec: { token, audiences: [audience] },
  })
  const options = { method: 'POST', ca, cert: reviewerCert, key: reviewerKey, headers: { 'content-type': 'application/json' } }
  const text = await new Promise((done, failed) => {
    const asked = request(`${api}/apis/authentication.k8s.io/v1/tokenreviews`, options, async (answer) => {
      const parts = []
      for await (const part of answer) parts.push(part)
      done(Buffer.concat(parts).toString())
    })
    asked.on('error', failed).end(body)
  })
  const { status } = JSON.parse(text)
  return status.authenticated && status.audiences?.includes(audience) ? status.user.username : undefined
}

function token(sub, access) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: 'e2e', sub, aud: audience, exp: now + 60, nbf: now - 10, iat: now, jti: randomUUID(), access }
  const text = `${part({ typ: 'JWT', alg: 'ES256', x5c: chain })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(text), { key: signer, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signature.toString('base64url')}`
}
