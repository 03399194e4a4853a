'use strict'

/** The transactional program built on KafkaJS; tests/support/transaction_program.py describes its commands. */

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')
const { loadCodecs } = require('./codecs')

const DEADLINE_MS = 60_000
const producers = new Map()
let readers = 0

function connect(bootstrap) {
  return new Kafka({
    brokers: [bootstrap],
    clientId: 'transactions',
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
  })
}

/** KafkaJS asks for its producer id when its first transaction begins: that one waits for `begin`. */
async function open({ producer, bootstrap, id, timeout }) {
  const made = connect(bootstrap).producer({
    transactionalId: id,
    transactionTimeout: Number(timeout),
    maxInFlightRequests: 1,
    createPartitioner: () => (choice) => choice.message.partition,
  })
  await made.connect()
  producers.set(producer, { made, waiting: await made.transaction(), current: null })
}

async function begin({ producer }) {
  const own = producers.get(producer)
  own.current = own.waiting ?? (await own.made.transaction())
  own.waiting = null
}

async function send({ producer, topic, partitions, count, tag }) {
  const messages = []
  for (let number = 0; number < Number(count); number++) {
    for (let partition = 0; partition < Number(partitions); partition++) {
      messages.push({ partition, key: `key-${number}`, value: `${tag}-${partition}-${number}` })
    }
  }
  await producers.get(producer).current.send({ topic, messages, acks: -1 })
}

async function offsets({ producer, group, topic, position }) {
  const partitions = [{ partition: 0, offset: position }]
  await producers.get(producer).current.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] })
}

async function commit({ producer }) {
  await producers.get(producer).current.commit()
}

async function abort({ producer }) {
  await producers.get(producer).current.abort()
}

async function close({ producer }) {
  await producers.get(producer).made.disconnect()
  producers.delete(producer)
}

/** KafkaJS's consumer reads nothing without a group: each `read` has one of its own. */
async function read({ bootstrap, isolation, wanted }) {
  const slots = new Map()
  const missing = new Map()
  for (const [slot, word] of wanted.split(',').entries()) {
    const [topic, partition, offset] = word.split(':')
    slots.set(`${topic}:${partition}`, slot)
    missing.set(`${topic}:${partition}`, BigInt(offset))
  }
  const consumer = connect(bootstrap).consumer({
    groupId: `kafkajs-reads-${process.pid}-${readers++}`,
    readUncommitted: isolation === 'read_uncommitted',
    maxWaitTimeInMs: 100,
  })
  await consumer.connect()
  const topics = [...new Set([...slots.keys()].map((place) => place.split(':')[0]))]
  await consumer.subscribe({ topics, fromBeginning: true })
  const lines = []
  let timer
  await new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`still missing: ${[...missing.keys()]}`)), DEADLINE_MS)
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const eachBatch = async ({ batch, resolveOffset }) => {
      const place = `${batch.topic}:${batch.partition}`
      for (const { offset, key, value } of batch.messages) {
        lines.push(`record ${slots.get(place)} ${offset} ${key} ${value}`)
        if (missing.has(place) && BigInt(offset) >= missing.get(place)) missing.delete(place)
      }
      resolveOffset(batch.lastOffset())
      if (missing.size === 0) resolve()
    }
    consumer.run({ autoCommit: false, eachBatch }).catch(reject)
  }).finally(() => clearTimeout(timer))
  await consumer.disconnect()
  return lines
}

const commands = { open, begin, send, offsets, commit, abort, close, read }

/** The names of an error and its causes, and its message, in one line. */
function describe(error) {
  const names = []
  for (let cause = error; cause; cause = cause.cause || cause.originalError) names.push(cause.type || cause.name)
  return `${names.join(' < ')}: ${String(error.message).replace(/\s+/g, ' ')}`
}

async function perform(line) {
  const [name, ...words] = line.split(' ')
  const options = Object.fromEntries(words.map((word) => word.split(/=(.*)/s).slice(0, 2)))
  let answer
  try {
    answer = [...((await commands[name](options)) ?? []), 'ok']
  } catch (error) {
    answer = [`refused ${describe(error)}`]
  }
  process.stdout.write(answer.join('\n') + '\n')
}

let queue = loadCodecs().then(() => process.stdout.write('ready\n'))
readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => (queue = queue.then(() => perform(line))))
  .on('close', () => queue.then(() => process.exit(0)))
