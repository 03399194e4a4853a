'use strict'

/**
 * The group member built on KafkaJS; tests/support/member_program.py describes its commands and events.
 *
 * KafkaJS brings a round-robin assignor of its own name only; `range` below is Kafka's, with Kafka's bytes.
 * Rebalances have no callback: the library ends its batches, says so in an event, and then joins again, so each
 * batch is committed as soon as it is printed.
 */

const readline = require('readline')
const { Kafka, AssignerProtocol, logLevel } = require('kafkajs')

const { MemberMetadata, MemberAssignment } = AssignerProtocol

const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  protocol({ topics }) {
    return { name: this.name, metadata: MemberMetadata.encode({ version: this.version, topics }) }
  },
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort()
    const assignments = new Map(ids.map((id) => [id, {}]))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map((one) => one.partitionId)
      partitions.sort((a, b) => a - b)
      const least = Math.floor(partitions.length / ids.length)
      const larger = partitions.length % ids.length
      ids.forEach((id, index) => {
        const start = least * index + Math.min(index, larger)
        const own = partitions.slice(start, start + least + (index < larger ? 1 : 0))
        if (own.length > 0) assignments.get(id)[topic] = own
      })
    }
    return [...assignments].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: this.version, assignment }),
    }))
  },
})

function print(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields, at: Number(process.hrtime.bigint()) / 1e9 }) + '\n')
}

async function join(options) {
  const { topic } = options
  const kafka = new Kafka({
    brokers: [options.bootstrap],
    clientId: options.client,
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 300, retries: 200 },
  })
  const consumer = kafka.consumer({
    groupId: options.group,
    partitionAssigners: [range],
    sessionTimeout: Number(options.session),
    heartbeatInterval: Number(options.heartbeat),
    maxWaitTimeInMs: 100,
  })
  let owned = []
  const release = () => {
    if (owned.length > 0) print('revoked', { partitions: owned })
    owned = []
  }
  consumer.on(consumer.events.REBALANCING, release)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    release()
    owned = [...(payload.memberAssignment[topic] || [])].sort((a, b) => a - b)
    print('assigned', { partitions: owned })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    // After most errors the library starts again by itself.
    print(payload.restart ? 'refused' : 'failed', { reason: String(payload.error) })
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, isRunning, isStale }) => {
      if (!isRunning() || isStale()) return
      const { partition, messages } = batch
      print('records', {
        partition,
        offsets: messages.map((message) => Number(message.offset)),
        values: messages.map((message) => message.value.toString()),
      })
      const last = messages[messages.length - 1].offset
      resolveOffset(last)
      const offset = (BigInt(last) + 1n).toString()
      try {
        await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition, offset }] }] })
      } catch (error) {
        print('refused', { reason: String(error) })
        throw error
      }
      print('committed', { offsets: { [partition]: Number(offset) } })
    },
  })
  return async () => {
    await consumer.disconnect()
    release()
  }
}

let leave = null

async function command(line) {
  const [name, ...words] = line.split(' ')
  if (name === 'join') {
    leave = await join(Object.fromEntries(words.map((word) => word.split(/=(.*)/s).slice(0, 2))))
  } else if (leave !== null) {
    const last = leave
    leave = null
    await last()
    print('left')
  }
}

let queue = Promise.resolve()
const enqueue = (task) => {
  queue = queue.then(task).catch((error) => print('failed', { reason: String(error) }))
}
const end = () => {
  enqueue(() => command('leave'))
  enqueue(() => process.exit(0))
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => enqueue(() => command(line)))
  .on('close', end)
process.on('SIGTERM', end)
print('ready')
